"""Quarantine: signed bodies that did not fit their source."""
