"""Timelines: what became of an event or a job, as one waterfall from delivery to effects."""
