"""Reads what senders write: JSON, forms, times, and paths into documents."""
