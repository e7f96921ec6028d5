"""Values of jobs that are too large for a topic: they lie in a store, sealed, and go by reference.

`reference` names one, `sealing` encrypts it, `local` and `objects` are the places where it can lie.
"""
