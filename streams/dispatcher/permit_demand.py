"""How many permits and starts of each shared limit one partition could use now.

Those of pools and types are for jobs in the queues that could start at once, as far as workers'
credits go; one of them is asked for without any, because credits come to where jobs may start.
Those of keys and sources are for the jobs that were set aside. Where a job needs several, the next
one is asked for only once there is room under all before it, in one order, so that no two
partitions wait for what the other one holds.
"""

from __future__ import annotations

from collections import Counter

from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.workers.roster import Roster
from streams.limits.buckets import Bucket


class Demand:
    """What one partition lacks, as of this step, and what it keeps for a reserved job."""

    def __init__(self, queue: RunQueue, roster: Roster) -> None:
        self._caps = queue.limited.caps
        self._aside = queue.limited.aside.waiting
        self._credits = max(1, sum(map(roster.credits, queue.queues)))
        self.kept: Counter[Bucket] = Counter()
        self._more: Counter[Bucket] = Counter()
        self._of_types(queue, roster)
        self._of_reservation()

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
        more = self._lacking(bucket) + self.kept[bucket]
        return min(limit.concurrency or 0, self._caps.running(bucket) + more)

    def starts_of(self, bucket: Bucket) -> int:
        """How many starts it could use; none of a bucket of which it still lacks permits."""
        buckets, lacking = self._caps.buckets, self._lacking(bucket)
        if bucket.limit in buckets.shared:
            used = self._caps.running(bucket)
            lacking = min(lacking, self._caps.permits.room(bucket, used, is_reserved=False))
        return lacking if bucket.limit in buckets.shared_rates else 0

    def _lacking(self, bucket: Bucket) -> int:
        return max(self._more[bucket], min(self._aside[bucket], self._credits))

    def _of_types(self, queue: RunQueue, roster: Roster) -> None:
        for pool, ready in queue.queues.items():
            most = min(ready.within_caps, max(1, roster.credits(pool)))
            waiting = ready.by_type()
            for type_ in ready.startable():
                jobs = min(most, waiting.get(type_, 0), self._caps.type_free(pool, type_))
                for bucket in self._caps.buckets.shared_of_type(pool, type_):
                    if jobs >= 1:
                        self._more[bucket] += int(jobs)
                    jobs = min(jobs, self._caps.room(bucket))

    def _of_reservation(self) -> None:
        buckets = self._caps.buckets
        shared = buckets.shared | buckets.shared_rates
        for bucket in sorted(b for b in self._caps.reservation.buckets if b.limit in shared):
            if self._caps.room(bucket) < 1:
                self._more[bucket] = max(1, self._more[bucket])
                break
            self.kept[bucket] = 1
