"""Time as tasks see it, so that a test can be its master."""

from __future__ import annotations

import time
from typing import Protocol

_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts suspension already."""


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch; never runs backwards."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps, and counts the time that a machine is suspended."""


def boot_seconds() -> float:
    """Seconds since the machine booted: the one monotonic clock for whatever may expire.

    `time.monotonic` stands still on Linux while the machine is suspended, so that a lease would
    outlive its term by that long.
    """
    return time.clock_gettime(_BOOT_CLOCK)


class SystemClock:
    """The machine's clocks, where nothing durable is decided."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return boot_seconds()
