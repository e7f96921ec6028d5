"""Schedules as values: what is a valid one, and when it fires."""
