"""Replays of events: old events get jobs once more."""
