"""Limits: what is used, who waits, and what is paused."""
