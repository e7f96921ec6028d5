"""Entries of refused attempts: a few a second, so that a flood of them is counted alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import Counter

MOST_A_SECOND = 5

REFUSED_ATTEMPTS = Counter(
    "tidegate_audit_refused_attempts_total",
    "Refused attempts of known callers, by whether the audit has an entry of them",
    ["written"],
)


class RefusedAttempts:
    """Says of which attempts an entry is written."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second, self._written = 0, 0

    def take(self) -> bool:
        """Count an attempt; return whether it has an entry."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._written = second, 0
        is_written = self._written < MOST_A_SECOND
        self._written += is_written
        REFUSED_ATTEMPTS.labels("true" if is_written else "false").inc()
        return is_written
