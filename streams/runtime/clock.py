"""Time as tasks see it, so that a test can be its master."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
