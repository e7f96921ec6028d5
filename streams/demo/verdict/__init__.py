"""Compares what was seen from the outside with the guarantees."""
