"""Decides how many of each tenant's deliveries this process may let pass."""
