"""Plays scenarios of the link to a worker in any language: docs/link.md."""
