"""Tenants: customers, with their sources and keys."""
