"""Debug lines about deliveries that made no new event; `tidegate dev` shows them.

They name only a tenant and source that exist. A flood writes a few lines a second; the first line
after them says how many were left out.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from streams.process.boot_clock import boot_seconds

log = structlog.get_logger(__name__)

LINES_A_SECOND = 20


class AnswerLog:
    """Writes the lines of one process; belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = boot_seconds) -> None:
        self._clock = clock
        self._second = 0
        self._written = 0
        self._left_out = 0

    def duplicate(self, tenant_id: str, source: str, event_id: str) -> None:
        """A delivery that was answered from memory."""
        if self._room():
            log.debug(
                "delivered again",
                event_id=event_id,
                tenant_id=tenant_id,
                source=source,
                left_out=self._taken(),
            )

    def refused(self, tenant_id: str | None, source: str | None, reason: str) -> None:
        """A delivery that was refused; `reason` is the name of a problem."""
        if self._room():
            log.debug(
                "delivery refused",
                tenant_id=tenant_id or "?",
                source=source or "?",
                reason=reason,
                left_out=self._taken(),
            )

    def _room(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._second, self._written = second, 0
        self._written += 1
        self._left_out += self._written > LINES_A_SECOND
        return self._written <= LINES_A_SECOND

    def _taken(self) -> int:
        left_out, self._left_out = self._left_out, 0
        return left_out
