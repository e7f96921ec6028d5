"""Reads the topic `events` from outside the pipeline: a person's selection, once, to its end."""
