"""`tidegate demo`: replays the incident on a real Kafka, and judges it from the outside.

`scenario` defines what happens, `delivery` is the vendor, `app` has the customer's handlers, and
`recorder` is the outside world that they call. `faults` kills processes. `evidence` is everything
that was seen from outside; `judge` compares it with the guarantees.
"""
