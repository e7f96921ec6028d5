"""Tokens of the API: make, list and revoke them."""
