"""Jobs that are set aside because a bucket of their own is full, by that bucket.

They are not among the lanes of the ready queues, so one whose bucket is full hides none behind it,
and a step costs nothing for each of them. Once there is room, some come back, and are chosen among
all others. Of those that wait for one bucket the line comes first that has waited longest, its
priority's head start included; a line that got a turn comes last, so one tenant's backlog holds up
no other's. All times are in milliseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import NamedTuple

from streams.fairness.ready_queue import Ready
from streams.limits.buckets import Bucket
from streams.topology.model import Priority

Entry = tuple[int, str, int]
"""When a job became ready, its id, and the number of its line: plain values, as in `lanes`."""

Rank = tuple[int, int]
"""Since when a line waits, less its head start, and its last turn; the lowest comes first."""

_STALE = 16


class Back(NamedTuple):
    """A job that goes back to its pool's queue."""

    pool: str
    ready: Ready


class Line:
    """The jobs of one pool, tenant, type and priority that wait for one bucket, oldest first.

    `jobs` is a heap that may also hold removed jobs, but never at its head. `rank` is the line's
    place in the order of its bucket, and `oldest` its oldest job's in the order of all lines.
    `turn` numbers the turn that it got last, at `served_at`.
    """

    __slots__ = (
        "bucket",
        "jobs",
        "name",
        "number",
        "oldest",
        "rank",
        "served_at",
        "turn",
        "waiting",
    )

    def __init__(self, number: int, bucket: Bucket, name: tuple[str, str, str, str]) -> None:
        self.number = number
        self.bucket = bucket
        self.name = name
        self.jobs: list[Entry] = []
        self.waiting = 0
        self.served_at = 0
        self.turn = 0
        self.rank: Rank | None = None
        self.oldest: int | None = None


class SetAside:
    """All jobs of one partition that are set aside."""

    def __init__(self, priorities: Mapping[str, Priority]) -> None:
        self._head_starts = {n: round(p.head_start_seconds * 1000) for n, p in priorities.items()}
        self._members: dict[str, Entry] = {}
        self._made = self._turns = 0
        self._lines: dict[int, Line] = {}
        self._named: dict[tuple[Bucket, tuple[str, str, str, str]], Line] = {}
        self._by_type: dict[tuple[str, str], dict[int, Line]] = defaultdict(dict)
        self._orders: dict[Bucket, list[tuple[Rank, int]]] = {}  # heaps of lines
        self._oldest: list[tuple[int, int]] = []  # a heap of the lines' oldest jobs
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """How many there are by pool, type and tenant."""
        self.by_type: Counter[tuple[str, str]] = Counter()
        """How many there are by pool and type."""

    def __len__(self) -> int:
        return len(self._members)

    def add(self, pool: str, ready: Ready, bucket: Bucket) -> None:
        """Set a job aside until there is room in a bucket."""
        if ready.job_id in self._members:
            return
        name = pool, ready.tenant_id, ready.type, ready.priority
        line = self._named.get((bucket, name)) or self._new_line(bucket, name)
        entry = self._members[ready.job_id] = (ready.ready_at, ready.job_id, line.number)
        heappush(line.jobs, entry)
        line.waiting += 1
        self.counts[pool, ready.type, ready.tenant_id] += 1
        self.by_type[pool, ready.type] += 1
        if line.jobs[0] is entry:
            self._rank(line)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is here."""
        entry = self._members.pop(job_id, None)
        if entry is not None:
            self._drop(self._lines[entry[2]])

    def take(self, bucket: Bucket, now: int) -> Back | None:
        """Remove and return the job that comes back next of those that wait for a bucket."""
        order = self._orders.get(bucket)
        while order:
            rank, number = order[0]
            line = self._lines.get(number)
            if line is None or rank != line.rank:
                heappop(order)
                continue
            self._turns += 1
            line.served_at, line.turn = now, self._turns
            return self.take_job(line.jobs[0][1])
        return None

    def take_job(self, job_id: str) -> Back | None:
        """Remove and return a job, if it is here."""
        entry = self._members.get(job_id)
        if entry is None:
            return None
        pool, tenant_id, type_, priority = self._lines[entry[2]].name
        self.remove(job_id)
        return Back(pool, Ready(entry[0], job_id, tenant_id, type_, priority))

    def has(self, bucket: Bucket) -> bool:
        """Whether a job waits for a bucket."""
        return bucket in self._orders

    def oldest(self) -> int | None:
        """When the longest waiting of them became ready."""
        while self._oldest:
            ready_at, number = self._oldest[0]
            line = self._lines.get(number)
            if line is not None and line.oldest == ready_at:
                return ready_at
            heappop(self._oldest)
        return None

    def ready_since(self, pool: str, type_: str, moment: int, limit: int) -> list[str]:
        """Ids of at most `limit` jobs of a pool and type that became ready by `moment`."""
        lines = self._by_type.get((pool, type_), {}).values()
        due = chain.from_iterable(line.jobs for line in lines if line.jobs[0][0] <= moment)
        found = (job for job in due if job[0] <= moment and self._members.get(job[1]) is job)
        return [job_id for _, job_id, _ in islice(found, limit)]

    def _new_line(self, bucket: Bucket, name: tuple[str, str, str, str]) -> Line:
        self._made += 1
        line = self._lines[self._made] = self._named[bucket, name] = Line(self._made, bucket, name)
        self._by_type[name[0], name[2]][line.number] = line
        self._orders.setdefault(bucket, [])
        return line

    def _drop(self, line: Line) -> None:
        """Update a line after one of its jobs left the members."""
        pool, tenant_id, type_, _ = line.name
        self.counts[pool, type_, tenant_id] -= 1
        if not self.counts[pool, type_, tenant_id]:
            del self.counts[pool, type_, tenant_id]
        self.by_type[pool, type_] -= 1
        if not self.by_type[pool, type_]:
            del self.by_type[pool, type_]
        line.waiting -= 1
        if not line.waiting:
            self._forget(line)
            return
        while self._members.get(line.jobs[0][1]) is not line.jobs[0]:
            heappop(line.jobs)
        if len(line.jobs) > 2 * line.waiting + _STALE:
            line.jobs = [job for job in line.jobs if self._members.get(job[1]) is job]
            heapify(line.jobs)
        self._rank(line)

    def _forget(self, line: Line) -> None:
        """Remove a line that has no jobs any more, and its bucket's order with the last one."""
        del self._lines[line.number], self._named[line.bucket, line.name]
        of_type = self._by_type[line.name[0], line.name[2]]
        del of_type[line.number]
        if not of_type:
            del self._by_type[line.name[0], line.name[2]]
        order = self._orders[line.bucket]
        while order and order[0][1] not in self._lines:
            heappop(order)
        if not order:
            del self._orders[line.bucket]

    def _rank(self, line: Line) -> None:
        """Give a line its place in the orders, after its oldest job or its last turn changed."""
        ready_at = line.jobs[0][0]
        since = max(line.served_at, ready_at)
        rank = since - self._head_starts.get(line.name[3], 0), line.turn
        if rank != line.rank:
            line.rank = rank
            heappush(self._orders[line.bucket], (rank, line.number))
        if ready_at != line.oldest:
            line.oldest = ready_at
            heappush(self._oldest, (ready_at, line.number))
            if len(self._oldest) > 2 * len(self._lines) + _STALE:
                self._oldest = [(each.jobs[0][0], n) for n, each in self._lines.items()]
                heapify(self._oldest)
