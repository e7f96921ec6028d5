"""One place that is kept free in several buckets, for the job that waits longest for all of them.

A job takes its places in all its buckets at once, or none. While others fill one bucket or the
other in turn, a job that needs both could wait for ever. So a job that was sent from one full
bucket to another gets a reservation once it has waited `AFTER_MS`: a place that becomes free in one
of its buckets is kept, until all are free. There is one reservation at a time, so no two jobs wait
for what the other holds.

Another of its buckets may stay full for long, so places are kept for as long as the job had waited
before. Then others have them for as long as it has waited in all, before it gets the next one.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from streams.limits.buckets import Bucket

AFTER_MS = 10_000
TAKEN_MS = 5_000
"""Once all places are free, they are kept that long: the job may lack a worker, or its tenant be
at its cap."""
_STALE = 16


class Waits(NamedTuple):
    """What a job waits for; if it waited for another of its buckets before, places are kept for it
    from `due` on.
    """

    ready_at: int
    bucket: Bucket
    buckets: frozenset[Bucket]
    due: int | None = None


class Reservation:
    """Which job of a partition has places kept, and where; times in milliseconds."""

    def __init__(self) -> None:
        self.job_id: str | None = None
        self.buckets: frozenset[Bucket] = frozenset()
        self._until = 0
        self._free_since = 0
        self._waits: dict[str, Waits] = {}
        self._order: list[tuple[int, str]] = []  # a heap of `Waits.due`

    def set_aside(
        self, job_id: str, ready_at: int, bucket: Bucket, buckets: tuple[Bucket, ...]
    ) -> None:
        """A job waits for one of its buckets, perhaps for another one than before."""
        if len(buckets) < 2:
            return
        before = self._waits.get(job_id)
        now = Waits(ready_at, bucket, frozenset(buckets))
        if before is None or before.ready_at != ready_at:
            self._waits[job_id] = now
        elif before.due is not None or before.bucket == bucket:
            self._waits[job_id] = now._replace(due=before.due)
        else:
            self._wait_until(job_id, now, ready_at + AFTER_MS)

    def waits_no_more(self, job_id: str) -> frozenset[Bucket]:
        """Forget a job; returns the buckets in which its places are free for others now."""
        self._waits.pop(job_id, None)
        if job_id != self.job_id:
            return frozenset()
        freed, self.job_id, self.buckets = self.buckets, None, frozenset()
        return freed

    def pass_time(self, now: int) -> frozenset[Bucket]:
        """Keep places for the job that has waited for long, if there is one.

        Returns the buckets in which places were given up: a job did not take them, or not all
        became free.
        """
        given_up: frozenset[Bucket] = frozenset()
        if self.job_id is not None and self._free_since and self._free_since + TAKEN_MS <= now:
            given_up = self.waits_no_more(self.job_id)
        elif self.job_id is not None and not self._free_since and self._until <= now:
            job_id, waits = self.job_id, self._waits[self.job_id]
            given_up = self.waits_no_more(job_id)
            self._wait_until(job_id, waits, 2 * now - waits.ready_at)
        while self.job_id is None and self._order and self._order[0][0] <= now:
            due, job_id = heappop(self._order)
            found = self._waits.get(job_id)
            if found is not None and found.due == due:
                self.job_id, self.buckets = job_id, found.buckets
                self._until, self._free_since = 2 * now - found.ready_at, 0
        return given_up

    def is_free(self, now: int) -> None:
        """All the places that are kept are free: the job can start, if nothing else keeps it."""
        self._free_since = self._free_since or now

    def kept(self, bucket: Bucket, job_id: str | None) -> int:
        """How many places of a bucket are kept from a job."""
        return int(bucket in self.buckets and job_id != self.job_id)

    def _wait_until(self, job_id: str, waits: Waits, due: int) -> None:
        self._waits[job_id] = waits._replace(due=due)
        heappush(self._order, (due, job_id))
        if len(self._order) > 2 * len(self._waits) + _STALE:
            dues = ((each.due, id_) for id_, each in self._waits.items())
            self._order = [(due, id_) for due, id_ in dues if due is not None]
            heapify(self._order)
