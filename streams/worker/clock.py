"""The worker's clock."""

from __future__ import annotations

import time

_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts suspension already."""


def boot_seconds() -> float:
    """Seconds since the machine booted, the time in which it was suspended included.

    `time.monotonic` stands still on Linux while the machine is suspended: a lease would seem
    valid long after the dispatcher gave its job to another worker.
    """
    return time.clock_gettime(_BOOT_CLOCK)
