"""The dedup stage: of each event's deliveries, the first within the window goes on."""

from streams.dedup.processor import stage

__all__ = ["stage"]
