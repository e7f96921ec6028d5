"""Reads the topic `events` from outside the pipeline: what a person selected, once, to its end."""
