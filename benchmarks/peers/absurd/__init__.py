"""Absurd on PostgreSQL behind the front."""
