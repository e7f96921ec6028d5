"""What every system of bench_jobs is asked to do, and what is taken from it, from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from harness import worked_seconds

Kind = Literal["noop", "effect"]
Seconds = dict[str, float]
"""Processor time so far, by component."""

_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.2
"""Between the last handler's start and the last look at the processor time."""


class Stalled(Exception):
    """Jobs did not end in time, or a process did; the message says which."""


@dataclass(frozen=True)
class Load:
    """So many jobs: `rate` a second whatever the system does, or 0: as fast as it takes them."""

    kind: Kind
    count: int
    rate: float = 0.0

    @property
    def patience(self) -> float:
        """Seconds after which jobs that have not ended are lost."""
        return 60 + self.count / 50


@dataclass(frozen=True)
class Run:
    """What became of a load; moments are in seconds since the epoch.

    `answered` is when the sender of a job was told that it is taken, `starts` holds the first
    lines of its handler, `unsettled` counts the jobs whose state is not that of a job which
    succeeded in its first attempt. `spent` is of the system and its sender, `others` the cores that
    everything else on the machine kept busy meanwhile.
    """

    began: float
    ended: float
    answered: Mapping[str, float]
    starts: Mapping[str, Sequence[float]]
    unsettled: int
    spent: Seconds
    others: float

    @property
    def wrong(self) -> int:
        """Jobs that were lost, began twice, or did not end as they must."""
        once = sum(len(self.starts.get(job_id, ())) == 1 for job_id in self.answered)
        unknown = len(self.starts.keys() - self.answered.keys())
        return max(self.unsettled, len(self.answered) - once) + unknown

    @property
    def rate(self) -> float:
        """Jobs a second, from the first one sent to the last one's end."""
        return len(self.answered) / (self.ended - self.began)

    @property
    def latencies(self) -> list[float]:
        """Seconds from each answer to the handler's first line."""
        return [self.starts[job_id][0] - at for job_id, at in self.answered.items()]


class System(Protocol):
    """One that runs jobs, started and ready."""

    def run(self, load: Load) -> Run:
        """Send the load, return once all of it has ended.

        Raises:
            Stalled: it did not.
        """
        ...

    def spent(self) -> Seconds:
        """Processor time of each component since it started."""
        ...


@dataclass(frozen=True)
class Meter:
    """Reads the processor time from its making on; `before` is what was spent until then."""

    before: Seconds
    worked: float = field(default_factory=worked_seconds)
    since: float = field(default_factory=time.monotonic)

    def read(self, now: Seconds, sender: float) -> tuple[Seconds, float]:
        """What each component and the sender spent, and the cores that others kept busy."""
        spent = {**difference(self.before, now), "load": sender}
        worked, took = worked_seconds() - self.worked, time.monotonic() - self.since
        return spent, max(0.0, worked - sum(spent.values())) / took


class Starts:
    """The file in which handlers note `job_id moment` as their first line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(0o666)
        path.chmod(0o666)

    def clear(self) -> None:
        """Forget earlier runs; a handler that starts later is an unknown job's."""
        os.truncate(self.path, 0)

    def await_lines(self, count: int, patience: float, alive: Callable[[], None]) -> None:
        """Return shortly after the file has so many lines; `alive` raises if that is hopeless.

        Raises:
            Stalled: it never had.
        """
        deadline = time.monotonic() + patience
        while (found := self.path.read_bytes().count(b"\n")) < count:
            alive()
            if time.monotonic() > deadline:
                raise Stalled(f"{found} of {count} handlers started within {patience:.0f} s")
            time.sleep(_POLL_SECONDS)
        time.sleep(_SETTLE_SECONDS)

    def read(self) -> dict[str, list[float]]:
        """The moments of each job."""
        found: dict[str, list[float]] = {}
        for line in self.path.read_text().splitlines():
            job_id, at = line.split()
            found.setdefault(job_id, []).append(float(at))
        return found


def difference(before: Seconds, after: Seconds) -> Seconds:
    """What each component spent in between."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def process_seconds(pid: int) -> float:
    """User and system time of all threads of a process; 0 once it is gone (proc(5))."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS if fields else 0.0


def family(pid: int) -> set[int]:
    """A process and its descendants."""
    parents = {each: int(f[1]) for each in _pids() if (f := _stat(each))}
    found = {pid}
    while grown := {each for each, parent in parents.items() if parent in found} - found:
        found |= grown
    return found


def family_seconds(pid: int) -> float:
    """The same of a process and its descendants, those that have ended included."""
    # Fields 11 to 14 are user and system time of its own, then of children waited for.
    fields = (f for each in family(pid) if (f := _stat(each)))
    return sum(sum(map(int, f[11:15])) for f in fields) * _TICK_SECONDS


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _stat(pid: int) -> list[str]:
    """The fields behind the name, none if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
