"""Tokens: what programs and people without an issuer may do."""
