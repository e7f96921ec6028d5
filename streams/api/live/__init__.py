"""Streams of what jobs do while they do it, as server-sent events; docs/live.md is the contract."""
