"""Outgoing deliveries and their attempts."""
