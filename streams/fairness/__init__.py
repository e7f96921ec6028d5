"""Chooses the next ready job among tenants, types and priorities, and caps how many jobs run."""
