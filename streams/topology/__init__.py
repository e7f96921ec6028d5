"""`topology.yaml`: loading, checking, and applying it to a cluster."""
