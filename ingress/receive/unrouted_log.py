"""Logs each kind of event that no route matches, once.

Such an event is kept but gets no job; without the log line nobody would notice.
"""

from __future__ import annotations

import structlog

from streams.serde.records import Envelope

log = structlog.get_logger(__name__)

MOST_TOLD = 100
"""One process logs at most this many kinds, because senders can make up names without end."""


class Unrouted:
    """Remembers the logged kinds; a kind is a source's name and an event type, of any tenant."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, event: Envelope) -> None:
        """Log that a stored event has no job, unless its kind was logged before."""
        kind = (event.source, event.event_type)
        if kind in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told.add(kind)
        log.info("no route: kept on events, no job", source=kind[0], event_type=kind[1])
