"""Bulk acts: one action on all things that a filter selects, planned, ramped up, and followed."""
