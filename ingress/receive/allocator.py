"""When memory is looked after: that of large bodies at once, cyclic garbage seldom."""

from __future__ import annotations

import ctypes
import gc

_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 128 * 1024


def release_large_blocks() -> None:
    """Fix glibc's threshold for blocks of their own at its first value (mallopt(3)).

    Left alone it rises to the largest block ever freed, up to 32 MiB: from the first large body on
    all others share one heap, which keeps their places. Other C libraries have no such threshold.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)


def collect_seldom() -> None:
    """Have Python look for cyclic garbage after 5,000 new objects, not 700, and among those alone.

    A request leaves none behind, whatever its answer. Looking for it took a tenth of the event
    loop's time, and looking through all modules held every request up for a tenth of a second.
    The bound is for requests that end unread: each leaves some 20 objects and a read of the socket,
    256 KiB at most.
    """
    gc.freeze()
    gc.set_threshold(5_000)
