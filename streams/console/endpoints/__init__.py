"""Endpoints of outgoing webhooks."""
