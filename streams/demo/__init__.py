"""`tidegate demo`: the incident, acted out again on a real Kafka, and judged from the outside.

`scenario` says what happens, `delivery` is the vendor, `app` the customer's handlers, `recorder`
the outside world they call. `faults` strikes processes down. `evidence` is all that was seen from
outside; `judge` holds it against the guarantees.
"""
