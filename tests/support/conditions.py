"""Waiting for a named condition instead of sleeping."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.02
_LONGEST_GAP_SECONDS = 0.5


class Waited:
    """How much of `timeout` seconds a wait has used up.

    Between two looks the machine may stand still, and nothing that is waited for can happen: such a
    gap counts for at most half a second. Nor does what the host kept from the cores count.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._counted = 0.0
        self._at, self._stolen = time.monotonic(), stolen_seconds()

    @property
    def over(self) -> bool:
        return self._counted > self._timeout

    def looked(self) -> None:
        self._counted += self._ran()

    def slept(self) -> None:
        self._counted += min(self._ran(), _LONGEST_GAP_SECONDS)

    def failure(self, what: str) -> AssertionError:
        """Names what was waited for."""
        return AssertionError(f"not within {self._timeout:g} s: {what}")

    def _ran(self) -> float:
        at, stolen = time.monotonic(), stolen_seconds()
        ran = at - self._at - (stolen - self._stolen)
        self._at, self._stolen = at, stolen
        return max(ran, 0.0)


def eventually(predicate: Callable[[], T | None], timeout: float = 30.0, *, what: str) -> T:
    """The predicate's first true value; AssertionError naming `what` after `timeout` seconds.

    Time in which this machine stood still does not count (see `Waited`), and the last look begins
    when the time is over.
    """
    waited = Waited(timeout)
    while True:
        last = waited.over
        value = predicate()
        if value:
            return value
        waited.looked()
        if last:
            raise waited.failure(f"{what} (last: {value!r})")
        time.sleep(POLL_SECONDS)
        waited.slept()


def stolen_seconds() -> float:
    """What the host has kept from each core so far, on average; 0 where Linux does not tell."""
    try:
        ticks = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])  # proc(5): steal
    except OSError:
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
