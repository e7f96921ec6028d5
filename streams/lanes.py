"""Lanes of ready jobs, and the order among the lanes of one type.

A lane holds the jobs of one tenant, type and priority. Its level is the highest priority whose head
start it has reached by its own head start plus the time since it was last served or, if that is
later, since its oldest job became ready.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from sortedcontainers import SortedList

from streams.passes import Tenant
from streams.topology.model import Priority

Entry = tuple[int, str, int]
"""A waiting job: when it became ready (milliseconds), its id, and the number of its lane.

It names no object, so that the collector does not look at a million of them again and again.
"""

Key = tuple[int, int, str, int]
"""What orders lanes of one level: their tenant's charge, then their oldest job."""

_STALE = 16
"""Removed jobs that a lane may hold beyond as many as it has waiting ones."""


class Lane:
    """The ready jobs of one tenant, type and priority, oldest first.

    `waiting` counts them; `jobs` is a heap that may also hold removed ones, but never at its head.
    `level` and `key` are its place in the order, if it has one. `due` is when its level is looked
    at again, at the latest when it rises, and `oldest` is the entry by which its queue finds the
    longest waiting job.
    """

    __slots__ = (
        "due", "head_start", "jobs", "key", "level", "number", "oldest", "priority", "served_at",
        "tenant", "type", "waiting",
    )  # fmt: skip

    def __init__(
        self, number: int, tenant: Tenant, type_: str, priority: str, head_start: int
    ) -> None:
        self.number = number
        self.tenant = tenant
        self.type = type_
        self.priority = priority
        self.head_start = head_start
        self.served_at = 0
        self.jobs: list[Entry] = []
        self.waiting = 0
        self.level = 0
        self.key: Key | None = None
        self.due: int | None = None
        self.oldest: Entry | None = None

    def push(self, entry: Entry) -> bool:
        """Add a job; whether it is the oldest now."""
        heappush(self.jobs, entry)
        self.waiting += 1
        return self.jobs[0] is entry

    def key_of(self, charge: int) -> Key:
        """The lane's key while its tenant has this charge."""
        return (charge, *self.jobs[0])

    def drop(self, members: Mapping[str, Entry]) -> None:
        """One job is no longer among the members: forget it, at once or when it costs memory."""
        self.waiting -= 1
        jobs = self.jobs
        while jobs and members.get(jobs[0][1]) is not jobs[0]:
            heappop(jobs)
        if len(jobs) > 2 * self.waiting + _STALE:
            self.jobs = [entry for entry in jobs if members.get(entry[1]) is entry]
            heapify(self.jobs)


class Levels:
    """The levels that priorities make; times and head starts in milliseconds."""

    def __init__(self, priorities: Mapping[str, Priority]) -> None:
        self._head_starts = {
            p.name: round(p.head_start_seconds * 1000) for p in priorities.values()
        }
        self._bounds = sorted(self._head_starts.values())

    def __len__(self) -> int:
        return len(self._bounds) + 1

    def priorities(self) -> Iterable[str]:
        return self._head_starts

    def head_start(self, priority: str) -> int:
        return self._head_starts.get(priority, 0)

    def of(self, lane: Lane, now: int) -> tuple[int, int | None]:
        """A lane's level, and when it rises."""
        since = max(lane.served_at, lane.jobs[0][0])
        level = bisect_right(self._bounds, lane.head_start + max(0, now - since))
        if level == len(self._bounds):
            return level, None
        return level, since + self._bounds[level] - lane.head_start


class TypeLanes:
    """All lanes of one type, by number; those that may be taken are in order, by level and key.

    `jobs` counts the type's jobs, and `handled` says that some worker takes them.
    """

    __slots__ = ("_best", "_order", "handled", "jobs", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.jobs = 0
        self.handled = False
        self._order: list[SortedList] = []
        self._best: tuple[int, Key] | None = None

    def best(self) -> tuple[int, Key] | None:
        """The lane to serve next: its level, negative, and its key."""
        if self._best is None:
            for level in range(len(self._order) - 1, -1, -1):
                if self._order[level]:
                    self._best = (-level, self._order[level][0])
                    break
        return self._best

    def open(self, levels: int) -> None:
        """A worker takes the type: lanes may be put in order."""
        self.handled = True
        self._order = [SortedList() for _ in range(levels)]

    def close(self) -> None:
        """No worker takes the type: no lane is in order."""
        self.handled = False
        self._order = []
        self._best = None

    def place(self, lane: Lane, level: int, key: Key) -> None:
        """Put a lane where it belongs."""
        if lane.key == key and lane.level == level:
            return
        self.displace(lane)
        lane.level, lane.key = level, key
        self._order[level].add(key)
        self._best = None

    def place_all(self, level: int, lanes: list[Lane]) -> None:
        """Put many lanes in order, which have this level and a key but no place yet."""
        self._order[level].update(lane.key for lane in lanes)
        self._best = None

    def displace(self, lane: Lane) -> None:
        """Take a lane out of the order, if it is there."""
        if lane.key is not None:
            self._order[lane.level].remove(lane.key)
            lane.key = None
            self._best = None
