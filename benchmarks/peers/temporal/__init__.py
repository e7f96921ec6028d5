"""Temporal's dev server behind the front."""
