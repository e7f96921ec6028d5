"""Waiting for a named condition instead of sleeping."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_POLL_SECONDS = 0.02


def eventually(predicate: Callable[[], T | None], timeout: float = 10.0, *, what: str) -> T:
    """The predicate's first true value; AssertionError naming `what` after `timeout` seconds.

    Time in which the host let this machine stand still does not count: nothing could happen.
    """
    began, stolen_before = time.monotonic(), stolen_seconds()
    while True:
        value = predicate()
        if value:
            return value
        stolen = stolen_seconds() - stolen_before
        if time.monotonic() - began - stolen > timeout:
            kept = f" (and {stolen:.1f} s kept by the host)" if stolen >= 0.1 else ""
            raise AssertionError(f"not within {timeout:g} s{kept}: {what} (last: {value!r})")
        time.sleep(_POLL_SECONDS)


def stolen_seconds() -> float:
    """What the host has kept from each core so far, on average; 0 where Linux does not tell."""
    try:
        ticks = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])  # proc(5): steal
    except OSError:
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
