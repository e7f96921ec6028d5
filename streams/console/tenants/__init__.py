"""Tenants with their sources: rotate, disable, and why a delivery was refused."""
