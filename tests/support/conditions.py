"""Waiting for a named condition instead of sleeping."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 120.0
"""How long tests wait for what must come, so that a machine five times slower than others passes
too. A test gives a bound of its own only where that is what it tests."""
POLL_SECONDS = 0.02
_LONGEST_GAP_SECONDS = 0.5


class Waited:
    """How much of `timeout` seconds a wait has used up.

    What the host kept from the cores does not count. Between two looks the machine may stand still,
    and nothing that is waited for can happen: such a gap counts for at most half a second. Where
    more tests run at once than there are cores, a second counts as far as a core was to be had in
    it: a fifth of it where ten processes want to run on two.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._counted = 0.0
        self._at, self._stolen = time.monotonic(), _cores().stolen

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
        at, cores = time.monotonic(), _cores()
        ran = at - self._at - (cores.stolen - self._stolen)
        self._at, self._stolen = at, cores.stolen
        return max(ran, 0.0) * cores.share


@dataclass(frozen=True)
class _Cores:
    """What this machine's cores do: what the host has kept from each so far, on average, in
    seconds; and how much of one a process has that wants to run now, if tests share them."""

    stolen: float = 0.0
    share: float = 1.0


def _cores() -> _Cores:
    try:
        lines = Path("/proc/stat").read_text().splitlines()  # proc(5)
    except OSError:
        return _Cores()
    count = os.cpu_count() or 1
    steal = int(lines[0].split()[8]) / os.sysconf("SC_CLK_TCK") / count
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) <= count:
        return _Cores(steal)
    running = [int(line.split()[1]) for line in lines if line.startswith("procs_running ")]
    return _Cores(steal, min(1.0, count / max([1, *running])))


def eventually(
    predicate: Callable[[], T | None], timeout: float = PATIENCE_SECONDS, *, what: str
) -> T:
    """The predicate's first true value; AssertionError naming `what` after `timeout` seconds.

    Time in which this machine stood still or was busy counts less (see `Waited`), and the last look
    begins when the time is over.
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


def exit_code(process: subprocess.Popen[Any], timeout: float = PATIENCE_SECONDS) -> int:
    """The exit code of a process, once it has ended."""
    eventually(lambda: process.poll() is not None, timeout, what=f"{process.pid} has ended")
    return process.wait()
