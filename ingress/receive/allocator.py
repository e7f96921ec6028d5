"""Frees the memory of large bodies at once."""

from __future__ import annotations

import ctypes

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
