"""Limits: how many jobs run at once and start in a time."""
