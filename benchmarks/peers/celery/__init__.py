"""Celery on Redis behind the front."""
