"""Waiting jobs that buckets of their own count, as far as they are kept out of the ready queues.

Of each line (`contenders`) as many jobs are ahead, in the queue of their pool, as there was room
for. The others are behind: so a full bucket hides no other job, however many wait for it, and a
step costs nothing for each of them. A line with none ahead waits for a full bucket. All times are
in milliseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from streams.fairness.contenders import Contenders, Line, Name
from streams.fairness.job_heap import STALE, Entry
from streams.fairness.ready_queue import Ready
from streams.limits.buckets import Bucket
from streams.topology.model import Priority

T = TypeVar("T")


class Back(NamedTuple):
    """A job that goes into its pool's queue."""

    pool: str
    ready: Ready


class SetAside:
    """The lines of one partition; `len`, `counts` and `oldest` are of the jobs behind."""

    def __init__(
        self, priorities: Mapping[str, Priority], shared: frozenset[str] = frozenset()
    ) -> None:
        self._shared = shared
        head_starts = {n: round(p.head_start_seconds * 1000) for n, p in priorities.items()}
        self._made = 0
        self._lines: dict[int, Line] = {}
        self._named: dict[tuple[Name, tuple[Bucket, ...]], Line] = {}
        self._members: dict[str, Entry] = {}
        self._ahead: dict[str, Line] = {}
        self._by_type: dict[tuple[str, str], dict[int, Line]] = defaultdict(dict)
        self._contenders = Contenders(head_starts, self._lines)
        self._oldest: list[tuple[int, int]] = []  # a heap of the lines' oldest jobs
        self.waiting: Counter[Bucket] = Counter()
        """How many wait for each full bucket."""
        self.ahead: defaultdict[Bucket, Counter[Name]] = defaultdict(Counter)
        """How many are ahead, by name, in each bucket of the limits `shared`."""
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """How many there are by pool, type and tenant."""
        self.by_type: Counter[tuple[str, str]] = Counter()
        """How many there are by pool and type."""

    def __len__(self) -> int:
        return len(self._members)

    def line(self, name: Name, own: tuple[Bucket, ...]) -> Line:
        """The line of a job, which is made if there is none: add the job then."""
        line = self._named.get((name, own))
        if line is None:
            self._made += 1
            line = self._lines[self._made] = Line(self._made, name, own)
            self._named[name, own] = line
        return line

    def known(self, name: Name, own: tuple[Bucket, ...]) -> Line | None:
        """The line of a job, if any waits in it."""
        return self._named.get((name, own))

    def line_ahead(self, job_id: str) -> Line | None:
        """The line of a job that is ahead in one."""
        return self._ahead.get(job_id)

    def name(self, job_id: str) -> Name | None:
        """The name of a job that is behind or ahead; None if it is in no line."""
        line, entry = self._ahead.get(job_id), self._members.get(job_id)
        if line is None and entry is not None:
            line = self._lines[entry[2]]
        return None if line is None else line.name

    def go_ahead(self, line: Line, entry: Entry) -> None:
        """Note that a job of a line is in its queue."""
        line.last = max(line.last, entry) if line.last is not None and line.ahead else entry
        self._count_ahead(line, 1)
        self._ahead[entry[1]] = line

    def add(self, line: Line, ready_at: int, job_id: str) -> None:
        """Put a job behind in its line."""
        entry = self._members[job_id] = (ready_at, job_id, line.number)
        pool, tenant_id, type_, _ = line.name
        self._by_type[pool, type_][line.number] = line
        self.counts[pool, type_, tenant_id] += 1
        self.by_type[pool, type_] += 1
        self._count_waiting(line, 1)
        if line.push(entry):
            self._has_older(line)

    def put_back(self, line: Line, ready_at: int, job_id: str) -> None:
        """Put a job that was ahead behind."""
        del self._ahead[job_id]
        self._count_ahead(line, -1)
        self.add(line, ready_at, job_id)

    def remove(self, job_id: str) -> Line | None:
        """Forget a job; its line, if others are in it."""
        line = self._ahead.pop(job_id, None)
        if line is not None:
            self._count_ahead(line, -1)
        elif (entry := self._members.pop(job_id, None)) is not None:
            line = self._lines[entry[2]]
            self._drop(line)
        if line is not None and not line.ahead and not line.waiting:
            del self._lines[line.number], self._named[line.name, line.own]
            return None
        return line

    def take(self, line: Line, now: int) -> Back:
        """Let the oldest job behind in a line go ahead."""
        self._contenders.serve(line, now)
        return self._take(line.jobs[0])

    def take_job(self, job_id: str) -> Back | None:
        """Let a job go ahead, if it is behind."""
        entry = self._members.get(job_id)
        return None if entry is None else self._take(entry)

    def wait(self, line: Line, bucket: Bucket) -> None:
        """Let a whole line wait for a bucket."""
        self._count_waiting(line, -line.waiting)
        self._contenders.join(line, bucket)
        self._count_waiting(line, line.waiting)

    def rest(self, line: Line) -> None:
        """Let a line wait for its jobs ahead alone."""
        self._count_waiting(line, -line.waiting)
        self._contenders.leave(line)

    def first(self, bucket: Bucket) -> Line | None:
        """The line whose turn comes next of those that wait for a bucket."""
        return self._contenders.first(bucket)

    def has(self, bucket: Bucket) -> bool:
        """Whether a job waits for a bucket."""
        return self._contenders.has(bucket)

    def buckets_of(self, tenant_id: str) -> list[Bucket]:
        """The buckets of one tenant for which jobs wait."""
        return self._contenders.buckets_of(tenant_id)

    def lines_of(self, tenant_id: str) -> list[Line]:
        """The lines of one tenant's jobs."""
        return [line for line in self._lines.values() if line.name[1] == tenant_id]

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

    def _take(self, entry: Entry) -> Back:
        ready_at, job_id, number = entry
        line = self._lines[number]
        pool, tenant_id, type_, priority = line.name
        del self._members[job_id]
        self._drop(line)
        self.go_ahead(line, entry)
        return Back(pool, Ready(ready_at, job_id, tenant_id, type_, priority))

    def _drop(self, line: Line) -> None:
        """Update a line after one of the jobs behind left the members."""
        pool, tenant_id, type_, _ = line.name
        self._count_waiting(line, -1)
        _take_one(self.counts, (pool, type_, tenant_id))
        _take_one(self.by_type, (pool, type_))
        before = line.jobs[0]
        line.drop(self._members)
        if not line.waiting:
            self._contenders.leave(line)
            line.oldest = None
            of_type = self._by_type[pool, type_]
            del of_type[line.number]
            if not of_type:
                del self._by_type[pool, type_]
        elif line.jobs[0] is not before:
            self._has_older(line)

    def _count_ahead(self, line: Line, jobs: int) -> None:
        line.ahead += jobs
        for bucket in line.own:
            if bucket.limit in self._shared:
                names = self.ahead[bucket]
                names[line.name] += jobs
                if not names[line.name]:
                    del names[line.name]
                if not names:
                    del self.ahead[bucket]

    def _count_waiting(self, line: Line, jobs: int) -> None:
        if line.contender is not None:
            bucket = line.contender.bucket
            self.waiting[bucket] += jobs
            if not self.waiting[bucket]:
                del self.waiting[bucket]

    def _has_older(self, line: Line) -> None:
        """Follow that a line has another oldest job behind."""
        self._contenders.has_older(line)
        ready_at = line.jobs[0][0]
        if ready_at == line.oldest:
            return
        line.oldest = ready_at
        heappush(self._oldest, (ready_at, line.number))
        if len(self._oldest) > 2 * len(self._lines) + STALE:
            lines = ((each.oldest, number) for number, each in self._lines.items())
            self._oldest = [(at, number) for at, number in lines if at is not None]
            heapify(self._oldest)


def _take_one(counts: Counter[T], name: T) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
