"""How many jobs wait for a slot, where that is near a cap of `max_queued`.

A partition of the dispatcher counts its own (`Depths`), and publishes what is near a cap. Whoever
takes in new work adds up what all partitions publish (`Backlog`). A tenant's jobs are all in one
partition, those of a type are not, so one partition's part of a type counts as near a cap much
earlier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple, cast

from streams.serde import records
from streams.topology.limits import MaxQueued, QueueScope

RETRY_SECONDS = 10
"""When a refused sender is asked to try again; no part of Tidegate waits for this."""
_REMEMBERED = 4096
_NEAR = 2
"""A depth of a tenant is near its cap from a half of it on."""
_NEAR_APART = 16
"""The part of one partition in another depth is, from this part of its share of the cap on."""
_MOST_PUBLISHED = 5_000
"""So many depths of a partition are published, the fullest first: at most some 500 KB."""


class Line(NamedTuple):
    """Jobs whose waiting is counted together: of a tenant, of a type, or (scope global) all."""

    scope: QueueScope
    value: str


class Depth(NamedTuple):
    """How many jobs of a line wait, and its cap."""

    line: Line
    jobs: int
    cap: int

    @property
    def is_full(self) -> bool:
        """Whether no new job of the line is let in."""
        return self.jobs >= self.cap


class QueueCaps:
    """The caps that `max_queued` declares; of several for one line the smallest holds."""

    def __init__(self, declared: tuple[MaxQueued, ...]) -> None:
        self._declared = [(each, re.compile(translate(each.match)).fullmatch) for each in declared]
        self.of = lru_cache(_REMEMBERED)(self._of)

    def __bool__(self) -> bool:
        return bool(self._declared)

    def cap(self, line: Line) -> int | None:
        """The cap of a line; None if it has none."""
        jobs = [
            each.jobs
            for each, matches in self._declared
            if each.scope == line.scope and (each.scope == "global" or matches(line.value))
        ]
        return min(jobs, default=None)

    def _of(self, tenant_id: str, type_: str) -> tuple[tuple[Line, int], ...]:
        """The lines that count a job, each with its cap."""
        lines = Line("tenant", tenant_id), Line("job_type", type_), Line("global", "")
        return tuple((line, cap) for line in lines if (cap := self.cap(line)) is not None)


class Depths:
    """Counts the waiting jobs of one partition, of as many as `partitions`."""

    def __init__(self, caps: QueueCaps, partitions: int) -> None:
        self._caps = caps
        self._partitions = partitions
        self._jobs: dict[Line, int] = {}
        self._near: dict[Line, int] = {}  # with their caps

    def count(self, tenant_id: str, type_: str, more: int) -> None:
        """Count jobs that begin to wait, or, if `more` is negative, wait no longer."""
        for line, cap in self._caps.of(tenant_id, type_):
            jobs = self._jobs[line] = self._jobs.get(line, 0) + more
            if not jobs:
                del self._jobs[line]
            if jobs >= self._least(line, cap):
                self._near[line] = cap
            else:
                self._near.pop(line, None)

    def near(self) -> dict[Line, int]:
        """The depths that are to be published."""
        lines: Iterable[Line] = self._near
        if len(self._near) > _MOST_PUBLISHED:
            lines = nlargest(_MOST_PUBLISHED, lines, key=self._fill)
        return {line: self._jobs[line] for line in lines}

    def has_moved(self, published: Mapping[Line, int]) -> bool:
        """Whether a depth differs from what was published so much that this is in a hurry.

        The nearer it was to its cap, the less it takes.
        """
        for line in self._near.keys() | published.keys():
            cap = self._near.get(line) or self._caps.cap(line)
            before = published.get(line, 0)
            if cap is not None:
                share = self._share(line, cap)
                step = max(1, min(abs(share - before) // 8, share // 32))
                if abs(self._jobs.get(line, 0) - before) >= step:
                    return True
        return False

    def _fill(self, line: Line) -> float:
        return self._jobs[line] / self._near[line]

    def _share(self, line: Line, cap: int) -> int:
        return cap if line.scope == "tenant" else cap // self._partitions

    def _least(self, line: Line, cap: int) -> int:
        part = _NEAR if line.scope == "tenant" else _NEAR_APART
        return max(1, self._share(line, cap) // part)


class Backlog:
    """The depths of all partitions, by their newest reports; one thread hears, any may ask."""

    def __init__(self, caps: QueueCaps) -> None:
        self._caps = caps
        self._heard: dict[int, Mapping[Line, int]] = {}
        self._depths: dict[Line, int] = {}

    def hear(self, partition: int, report: records.Backlog | None) -> None:
        """Let a partition's report replace the one before; None: nothing of it is near a cap."""
        new = {} if report is None else depths_of(report)
        old = self._heard.get(partition, {})
        self._heard[partition] = new
        for line in old.keys() | new.keys():
            depth = self._depths.get(line, 0) - old.get(line, 0) + new.get(line, 0)
            if depth:
                self._depths[line] = depth
            else:
                self._depths.pop(line, None)

    def full(self, tenant_id: str, type_: str) -> Depth | None:
        """The first depth that lets no further job in; None if there is none."""
        for line, cap in self._caps.of(tenant_id, type_):
            found = Depth(line, self._depths.get(line, 0), cap)
            if found.is_full:
                return found
        return None

    def known(self) -> list[Depth]:
        """Every depth that is published and has a cap, the fullest first."""
        found = [
            Depth(line, jobs, cap)
            for line, jobs in self._depths.items()
            if (cap := self._caps.cap(line)) is not None
        ]
        return sorted(found, key=lambda depth: (-depth.jobs / depth.cap, depth.line))


def depths_of(report: records.Backlog) -> dict[Line, int]:
    """The depths of a report."""
    return {Line(cast(QueueScope, d.scope), d.value): d.jobs for d in report.depths}


def report_of(partition: int, depths: Mapping[Line, int]) -> records.Backlog:
    """A partition's depths as they are published."""
    found = (records.BacklogDepth(line.scope, line.value, jobs) for line, jobs in depths.items())
    return records.Backlog(partition, tuple(found))
