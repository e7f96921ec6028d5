"""Endpoints: where a tenant's outgoing webhooks go."""
