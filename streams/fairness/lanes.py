"""Lanes of ready jobs, and the order among the lanes of one type.

A lane holds the jobs of one tenant, type and priority. Its virtual age is the head start of its
priority plus its waiting time. The waiting time starts when the lane was last served or when its
oldest job became ready, whichever is later. The level of a lane is the number of priorities whose
head start its virtual age has reached. Lanes of a higher level are served first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain, islice

from sortedcontainers import SortedList

from streams.fairness.job_heap import Entry, JobHeap
from streams.fairness.stride import Tenant
from streams.topology.model import Priority

Key = tuple[int, int, str, int]
"""The sort key of lanes of one level: their tenant's charge, then their oldest job."""


Tenants = frozenset[str] | None
"""Some tenants; None: all."""


class Lane(JobHeap):
    """The ready jobs of one tenant, type and priority, oldest first.

    `level` and `key` are the lane's place in the order, if it has one. `due` is the time of the
    next check of its level, and `oldest` is the entry under which `Oldest` has sorted the lane.
    """

    __slots__ = (
        "due",
        "key",
        "level",
        "number",
        "oldest",
        "priority",
        "served_at",
        "tenant",
        "type",
    )

    def __init__(self, number: int, tenant: Tenant, type_: str, priority: str) -> None:
        super().__init__()
        self.number = number
        self.tenant = tenant
        self.type = type_
        self.priority = priority
        self.served_at = 0
        self.level = 0
        self.key: Key | None = None
        self.due: int | None = None
        self.oldest: Entry | None = None

    def key_of(self, charge: int) -> Key:
        """The lane's key while its tenant has this charge."""
        return (charge, *self.jobs[0])


class Levels:
    """Computes levels from the priorities' head starts; all times in milliseconds."""

    def __init__(self, priorities: Mapping[str, Priority]) -> None:
        self._head_starts = {
            p.name: round(p.head_start_seconds * 1000) for p in priorities.values()
        }
        self._bounds = sorted(self._head_starts.values())

    def __len__(self) -> int:
        return len(self._bounds) + 1

    def of(self, lane: Lane, now: int) -> tuple[int, int | None]:
        """A lane's level, and when it rises to the next one (None at the highest level)."""
        since = max(lane.served_at, lane.jobs[0][0])
        head_start = self._head_starts.get(lane.priority, 0)
        level = bisect_right(self._bounds, head_start + max(0, now - since))
        if level == len(self._bounds):
            return level, None
        return level, since + self._bounds[level] - head_start


class TypeLanes:
    """The lanes of one type; those that jobs may be taken from are ordered by level and key.

    `lanes` maps priority and tenant to a lane. `jobs` counts the type's jobs, and `handled` is
    True while some worker handles the type.
    """

    __slots__ = ("_best", "_order", "handled", "jobs", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[str, dict[str, Lane]] = {}
        self.jobs = 0
        self.handled = False
        self._order: list[SortedList] = []
        self._best: tuple[int, Key] | None = None

    def all(self) -> Iterator[Lane]:
        return chain.from_iterable(lanes.values() for lanes in self.lanes.values())

    def get(self, tenant_id: str, priority: str) -> Lane | None:
        lanes = self.lanes.get(priority)
        return lanes.get(tenant_id) if lanes else None

    def jobs_of(self, tenant_id: str) -> int:
        """The number of a tenant's jobs of this type."""
        lanes = (by_tenant.get(tenant_id) for by_tenant in self.lanes.values())
        return sum(lane.waiting for lane in lanes if lane)

    def ready_since(self, moment: int, limit: int, members: Mapping[str, Entry]) -> list[str]:
        """Ids of at most `limit` of the members that became ready by `moment` (milliseconds)."""
        due = (lane for lane in self.all() if lane.jobs[0][0] <= moment)
        jobs = chain.from_iterable(lane.jobs for lane in due)
        found = (job for job in jobs if job[0] <= moment and members.get(job[1]) is job)
        return [job_id for _, job_id, _ in islice(found, limit)]

    def add(self, lane: Lane) -> None:
        self.lanes.setdefault(lane.priority, {})[lane.tenant.id] = lane

    def remove(self, lane: Lane) -> None:
        lanes = self.lanes[lane.priority]
        del lanes[lane.tenant.id]
        if not lanes:
            del self.lanes[lane.priority]

    def best(self, tenants: Tenants = None) -> tuple[int, Key] | None:
        """The lane to serve next, as its negated level and its key.

        With `tenants`, the lanes of these alone are looked at, which costs work for each of them.
        """
        if tenants is not None:
            of_each = (lanes.get(name) for lanes in self.lanes.values() for name in tenants)
            ordered = (lane for lane in of_each if lane is not None)
            return min(((-lane.level, lane.key) for lane in ordered if lane.key), default=None)
        if self._best is None:
            for level in range(len(self._order) - 1, -1, -1):
                if self._order[level]:
                    self._best = (-level, self._order[level][0])
                    break
        return self._best

    def open(self, levels: int) -> None:
        """Begin to order lanes, since a worker handles the type now."""
        self.handled = True
        self._order = [SortedList() for _ in range(levels)]

    def close(self) -> None:
        """Drop the order of the lanes, since no worker handles the type any more."""
        self.handled = False
        self._order = []
        self._best = None

    def place(self, lane: Lane, level: int, key: Key) -> None:
        """Put a lane at this level and key in the order."""
        if lane.key == key and lane.level == level:
            return
        self.displace(lane)
        lane.level, lane.key = level, key
        self._order[level].add(key)
        self._best = None

    def displace(self, lane: Lane) -> None:
        """Take a lane out of the order, if it is there."""
        if lane.key is not None:
            self._order[lane.level].remove(lane.key)
            lane.key = None
            self._best = None
