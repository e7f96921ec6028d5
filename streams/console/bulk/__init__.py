"""Bulk acts: a plan, a ramp, its progress, and each item."""
