"""Finds the tenant and source of a webhook, and the secrets that may verify it."""
