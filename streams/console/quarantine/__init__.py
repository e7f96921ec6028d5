"""Signed bodies that could not be read as events."""
