"""Has the C library give the memory of large bodies back as soon as they are done with."""

from __future__ import annotations

import ctypes

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
