"""Bulk acts: one action on many things, in growing steps, with a result for each thing."""
