"""Entries of refused attempts: a few a second, so that a flood of them is counted alone.

One caller has fewer than all together, so that a flood of one does not hide the attempts of others.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import Counter

MOST_A_SECOND, MOST_OF_ONE = 5, 3

REFUSED_ATTEMPTS = Counter(
    "tidegate_audit_refused_attempts_total",
    "Refused attempts of known callers, by whether the audit has an entry of them",
    ["written"],
)


class RefusedAttempts:
    """Says of which attempts an entry is written."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._written = dict[str, int]()

    def take(self, caller: str) -> bool:
        """Count an attempt of a caller; return whether it has an entry."""
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._written.clear()
        own, all_ = self._written.get(caller, 0), sum(self._written.values())
        is_written = own < MOST_OF_ONE and all_ < MOST_A_SECOND
        self._written[caller] = own + is_written
        REFUSED_ATTEMPTS.labels("true" if is_written else "false").inc()
        return is_written
