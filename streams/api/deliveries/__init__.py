"""Deliveries: what each endpoint gets of each message."""
