"""How many permits and starts of each shared limit one partition could use now.

Those of pools and types are for jobs in the queues that could start at once, as far as workers'
credits go. One permit is asked for if only credits or other places are missing, and kept until they
come: else others would take them again and again, and the job would never have all at once.
Those of keys and sources are for the jobs that were set aside, and for those that went back to a
queue since. Where a job needs several, the next one is asked for only once there is room under all
before it, or jobs of this partition have places there, in one order. So no two partitions wait for
what the other one holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.workers.roster import Roster
from streams.limits.buckets import Bucket


class Demand:
    """What one partition lacks, as of this step, and what it keeps for a reserved job."""

    def __init__(self, queue: RunQueue, roster: Roster) -> None:
        self._queue = queue
        self._caps = queue.limited.caps
        self._aside = queue.limited.aside.waiting
        self._ahead = queue.limited.aside.ahead
        self._credits = max(1, sum(map(roster.credits, queue.queues)))
        self.kept: Counter[Bucket] = Counter()
        self._more: Counter[Bucket] = Counter()
        self._starts: Counter[Bucket] = Counter()
        self._of_types(queue, roster)
        self._of_reservation()

    def of_types(self) -> Iterable[Bucket]:
        """The buckets of pools and types, and of a reservation, of which it lacks permits."""
        return self._more

    def buckets(self) -> set[Bucket]:
        """All buckets of which it lacks permits or starts."""
        buckets = self._caps.buckets
        shared = buckets.shared | buckets.shared_rates
        return self._more.keys() | {b for b in self._aside if b.limit in shared}

    def of(self, bucket: Bucket) -> int:
        """How many permits it could use in all: those of running jobs, and more."""
        limit = self._caps.buckets.limits.get(bucket.limit)
        if limit is None or bucket.limit not in self._caps.buckets.shared:
            return 0
        ahead = self._ahead.get(bucket, {}).items()
        kept = sum(jobs for name, jobs in ahead if self._queue.is_open(name))
        own = min(self._aside[bucket] + kept, self._credits)
        more = max(self._more[bucket], own) + self.kept[bucket]
        return min(limit.concurrency or 0, self._caps.running(bucket) + more)

    def starts_of(self, bucket: Bucket) -> int:
        """How many starts it could use; none of a bucket of which it still lacks permits."""
        buckets = self._caps.buckets
        lacking = max(self._starts[bucket], min(self._aside[bucket], self._credits))
        if bucket.limit in buckets.shared:
            used = self._caps.running(bucket)
            lacking = min(lacking, self._caps.permits.room(bucket, used, is_reserved=False))
        return lacking if bucket.limit in buckets.shared_rates else 0

    def _of_types(self, queue: RunQueue, roster: Roster) -> None:
        for pool, ready in queue.queues.items():
            most = min(ready.within_caps, max(1, roster.credits(pool)))
            startable = ready.startable()
            for type_, waiting in queue.open(pool).items():
                jobs = min(most, waiting, self._caps.type_free(pool, type_))
                starts = jobs if type_ in startable else 0
                self._of_type(pool, type_, max(1, int(jobs)), int(starts))

    def _of_type(self, pool: str, type_: str, permits: int, starts: int) -> None:
        for bucket in self._caps.buckets.shared_of_type(pool, type_):
            self._more[bucket] += permits
            self._starts[bucket] += starts
            room = int(min(self._caps.room(bucket), permits))
            permits = max(room, min(1, permits, self._caps.running(bucket)))
            starts = min(starts, room)

    def _of_reservation(self) -> None:
        buckets = self._caps.buckets
        shared = buckets.shared | buckets.shared_rates
        for bucket in sorted(b for b in self._caps.reservation.buckets if b.limit in shared):
            if self._caps.room(bucket) < 1:
                self._more[bucket] = max(1, self._more[bucket])
                self._starts[bucket] = max(1, self._starts[bucket])
                break
            self.kept[bucket] = 1
