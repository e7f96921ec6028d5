"""Writes the selected events to files by day and type: exact, and continued where it ended."""
