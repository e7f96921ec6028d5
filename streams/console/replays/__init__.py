"""Replays of events from offsets or times."""
