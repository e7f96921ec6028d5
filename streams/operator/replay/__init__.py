"""Sends failed jobs and records in again, each once."""
