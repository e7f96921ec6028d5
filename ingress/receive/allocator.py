"""Tunes memory: frees large bodies at once, and collects cyclic garbage seldom."""

from __future__ import annotations

import ctypes
import gc

_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 128 * 1024


def release_large_blocks() -> None:
    """Fix glibc's threshold for separately mapped blocks at its first value (mallopt(3)).

    By default the threshold rises to the largest block ever freed, up to 32 MiB. After the first
    large body all others would then share one heap, which does not return their memory. Other C
    libraries have no such threshold.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)


def collect_seldom() -> None:
    """Have Python look for cyclic garbage after 5,000 new objects, not 700, and among those only.

    An answered request leaves no cyclic garbage. The search took a tenth of the event loop's time,
    and a search through all modules delayed every request by a tenth of a second. The bound is
    needed for requests that end unread: each leaves some 20 objects and one read of the socket, at
    most 256 KiB.
    """
    gc.freeze()
    gc.set_threshold(5_000)
