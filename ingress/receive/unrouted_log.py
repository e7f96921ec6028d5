"""What no route matches, told once: such an event is kept, and nobody would hear of it."""

from __future__ import annotations

import structlog

from ingress.receive.event import Event

log = structlog.get_logger(__name__)

MOST_TOLD = 100
"""Kinds of events told by one process: their names come from senders without end."""


class Unrouted:
    """Which kinds, a source's name with an event type, were told already; of no tenant."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, event: Event) -> None:
        """Log that a stored event has no job, once for its kind."""
        kind = (event.source, event.normalized.event_type)
        if kind in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told.add(kind)
        log.info("no route: kept on events, no job", source=kind[0], event_type=kind[1])
