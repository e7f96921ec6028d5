"""The one clock for everything that may expire: it never steps, and counts suspension.

On Linux no time service changes its pace either. `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC` are sped up
or slowed down while the wall clock is corrected: by 500 ppm at most by ntpd, but by 8.3 % by
chronyd (its `maxslewrate`). `CLOCK_MONOTONIC_RAW` is not, but it does not count suspension, which
is the difference of the other two.
"""

from __future__ import annotations

import time

CLOCK = "raw"
"""Name of this clock on Linux: what was kept under another name, or none, is another clock's."""
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def boot_seconds() -> float:
    """Seconds since the machine booted, as its crystal counts them.

    `time.monotonic` stands still on Linux while the machine is suspended, so a lease timed by it
    would outlive its term by that long. macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts
    suspension already.

    The three clocks are read one after the other, in the order in which an interruption between
    them does no harm: the result is always a time between the beginning and the end of the call.
    (While time is being corrected, it may lie before by 8.3 % of the interruption.)
    """
    if _BOOT_CLOCK is None:
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    boot = time.clock_gettime(_BOOT_CLOCK)
    suspended = boot - time.clock_gettime(time.CLOCK_MONOTONIC)
    return suspended + time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
