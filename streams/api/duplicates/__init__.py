"""Duplicates: events that came again and were dropped."""
