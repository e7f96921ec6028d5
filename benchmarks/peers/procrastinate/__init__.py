"""Procrastinate on PostgreSQL behind the front."""
