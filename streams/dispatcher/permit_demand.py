"""How many permits and starts of each shared limit one partition could use now.

Those of pools and types are for jobs in the queues that could start at once, as far as workers'
credits go. One permit is asked for if only credits or other places are missing, and kept until they
come: else others would take them again and again, and the job would never have all at once.
Starts are asked for as far as there are credits; whether jobs lack only these is told apart.
Those of keys and sources are for the jobs that were set aside, and for those that went back to a
queue since. Where a job needs several, the next one is asked for only once there is room under all
before it, or jobs of this partition have places there, in one order. So no two partitions wait for
what the other one holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.workers.registry import WorkerRegistry
from streams.fairness.contenders import Name
from streams.limits.buckets import Bucket

_NOBODY: frozenset[str] = frozenset()


class Starts(NamedTuple):
    """How many jobs could start at once; whether others lack a worker, or a place, too."""

    at_once: int
    lacks_worker: bool


class Demand:
    """What one partition lacks, as of this step, and what it keeps for a reserved job."""

    def __init__(self, queue: RunQueue, workers: WorkerRegistry) -> None:
        self._queue = queue
        self._caps = queue.limited.caps
        self._credits_of, self._able = cache(queue.credits), cache(workers.able)
        self._first = queue.limited.aside.first
        self._aside = queue.limited.aside.waiting
        self._ahead = queue.limited.aside.ahead
        self._credits = sum(map(self._credits_of, queue.queues))
        self.kept: Counter[Bucket] = Counter()
        self._more: Counter[Bucket] = Counter()
        self._starts: Counter[Bucket] = Counter()
        self._without_worker: set[Bucket] = set()
        self._of_types()
        self._of_reservation()

    def of_types(self) -> Iterable[Bucket]:
        """The buckets of pools and types, and of a reservation, of which it lacks permits."""
        return self._more

    def buckets(self) -> set[Bucket]:
        """All buckets of which it lacks permits or starts."""
        rates = self._caps.buckets.shared_rates
        own = (b for names in (self._aside, self._ahead) for b in names if b.limit in rates)
        return {*self._more, *own}

    def of(self, bucket: Bucket) -> int:
        """How many permits it could use in all: those of running jobs, and more."""
        limit = self._caps.buckets.limits.get(bucket.limit)
        if limit is None or bucket.limit not in self._caps.buckets.shared:
            return 0
        ahead = self._ahead.get(bucket, {}).items()
        kept = sum(jobs for name, jobs in ahead if self._queue.is_open(name))
        own = min(self._aside[bucket] + kept, max(1, self._credits))
        more = max(self._more[bucket], own) + self.kept[bucket]
        return min(limit.concurrency or 0, self._caps.running(bucket) + more)

    def starts_of(self, bucket: Bucket) -> Starts:
        """The starts it could use; none of a bucket of which it still lacks permits."""
        buckets, own = self._caps.buckets, self._own_starts(bucket)
        if bucket.limit not in buckets.shared_rates:
            return Starts(0, lacks_worker=False)
        at_once = min(max(self._starts[bucket], own.at_once), self._credits)
        lacks_worker = own.lacks_worker or bucket in self._without_worker
        if bucket.limit in buckets.shared:
            used = self._caps.running(bucket)
            room = self._caps.permits.room(bucket, used, is_reserved=False)
            return Starts(min(at_once, room), lacks_worker and room > 0)
        return Starts(at_once, lacks_worker)

    def _own_starts(self, bucket: Bucket) -> Starts:
        """Those of jobs that wait for the bucket, by the first of them, or went back to a queue."""
        ahead = self._ahead.get(bucket, {}).items()
        names = Counter({name: jobs for name, jobs in ahead if self._queue.is_open(name)})
        if (line := self._first(bucket)) is not None:
            names[line.name] += self._aside[bucket]
        able = Counter[str]()
        for name, jobs in names.items():
            if self._may_start(name):
                able[name[0]] += jobs
        at_once = sum(min(jobs, self._credits_of(pool)) for pool, jobs in able.items())
        return Starts(at_once, at_once < sum(names.values()))

    def _may_start(self, name: Name) -> bool:
        """Whether a job of this name has a worker, and no limit of this partition holds it back."""
        pool, tenant_id, type_, _ = name
        caps = self._caps
        has_room = caps.tenant_room(tenant_id) >= 1 and caps.type_free(pool, type_) >= 1
        tenants = self._able(pool).get(type_, _NOBODY)
        return has_room and (tenants is None or tenant_id in tenants)

    def _of_types(self) -> None:
        for pool, ready in self._queue.queues.items():
            most = min(ready.within_caps, max(1, self._credits_of(pool)))
            startable = ready.startable()
            for type_, waiting in self._queue.open(pool).items():
                jobs = min(most, waiting, self._caps.type_free(pool, type_))
                starts = jobs if type_ in startable else 0
                self._of_type(pool, type_, max(1, int(jobs)), int(starts))

    def _of_type(self, pool: str, type_: str, permits: int, starts: int) -> None:
        has_worker = self._queue.has(pool, type_, self._able(pool).get(type_, _NOBODY))
        for bucket in self._caps.buckets.shared_of_type(pool, type_):
            self._more[bucket] += permits
            self._add_starts(bucket, starts, has_worker=has_worker)
            room = int(min(self._caps.room(bucket), permits))
            permits = max(room, min(1, permits, self._caps.running(bucket)))
            starts = min(starts, room)

    def _add_starts(self, bucket: Bucket, starts: int, *, has_worker: bool) -> None:
        if has_worker:
            self._starts[bucket] += starts
        elif starts:
            self._without_worker.add(bucket)

    def _of_reservation(self) -> None:
        buckets = self._caps.buckets
        shared = buckets.shared | buckets.shared_rates
        for bucket in sorted(b for b in self._caps.reservation.buckets if b.limit in shared):
            if self._caps.room(bucket) < 1:
                self._more[bucket] = max(1, self._more[bucket])
                if not self._starts[bucket]:
                    self._add_starts(bucket, 1, has_worker=self._credits > 0)
                break
            self.kept[bucket] = 1
