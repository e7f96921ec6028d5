"""Replays of events: old events of the topic `events` get jobs once more, one for each replay."""
