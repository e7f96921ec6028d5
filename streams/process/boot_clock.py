"""The one clock for everything that may expire: it never steps, and counts suspension."""

from __future__ import annotations

import time

_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts suspension already."""


def boot_seconds() -> float:
    """Seconds since the machine booted.

    `time.monotonic` stands still on Linux while the machine is suspended, so a lease timed by it
    would outlive its term by that long.
    """
    return time.clock_gettime(_BOOT_CLOCK)
