"""Jobs that a limit of their own holds back, and when there is room for them again.

A job that is counted by its tenant, pool and type alone stays in its queue while these are full.
One with buckets of its own (`limits.buckets`) is set aside by the bucket that is full. It comes
back when a job of the bucket ended, or at the bucket's next token.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from streams.dispatcher.live_index import Live
from streams.fairness.ready_queue import Ready
from streams.fairness.set_aside import Back, SetAside
from streams.limits.buckets import Bucket
from streams.limits.caps import Caps
from streams.limits.rates import Undo
from streams.limits.reservation import TAKEN_MS
from streams.topology.model import Topology

_DUE_AT_ONCE = 1_000
"""So many buckets that have a token again are looked at in one call, at most."""
_BACK_AT_ONCE = 256
"""So many jobs come back in one call, and so many buckets are looked at, at most."""


class Limited:
    """The limits of one partition, and the jobs that they hold back."""

    def __init__(self, topology: Topology) -> None:
        self.caps = Caps(topology.limits)
        self.aside = SetAside(topology.priorities)
        self._own: dict[str, tuple[Bucket, ...]] = {}  # of waiting jobs that have some
        self._opened: dict[Bucket, None] = {}  # in which there may be room, oldest first
        self._due: list[tuple[float, Bucket]] = []  # a heap of buckets that wait for a token
        self._expected: dict[Bucket, float] = {}

    def waits(self, job_id: str, live: Live) -> bool:
        """A job waits for a slot now; whether it is set aside."""
        own = self.caps.buckets.of_job(live)
        if not own:
            return False
        self._own[job_id] = own
        ready = Ready(live.at, job_id, live.tenant_id, live.type, live.priority)
        return self.held_back(live.pool, ready)

    def waits_no_more(self, job_id: str) -> None:
        self._own.pop(job_id, None)
        self.aside.remove(job_id)
        self._opened.update(dict.fromkeys(self.caps.reservation.waits_no_more(job_id)))

    def held_back(self, pool: str, ready: Ready) -> bool:
        """Whether a job may not start because a bucket of its own is full: then it is set aside."""
        own = self._own.get(ready.job_id, ())
        bucket = self.caps.full(own, ready.job_id)
        if bucket is None:
            return False
        self.caps.reservation.set_aside(ready.job_id, ready.ready_at, bucket, own)
        self.aside.add(pool, ready, bucket)
        self.expect(bucket)
        return True

    def started(self, live: Live) -> None:
        self.caps.started(live)

    def ended(self, live: Live) -> None:
        """A job gave its slot back: some of those that waited for it come back later."""
        freed = filter(self.aside.has, self.caps.ended(live))
        self._opened.update(dict.fromkeys(freed))

    def spend(self, live: Live, on_undo: Undo) -> list[tuple[Bucket, float]]:
        """A job starts: take a token of each of its rates; the new arrival times."""
        caps = self.caps
        paced = [b for b in caps.buckets.all(live) if b.limit in caps.rates.paces]
        for bucket in paced:
            on_undo(self._look_at, bucket, caps.now)  # called once its arrival time is back
        return [(bucket, caps.rates.spend(bucket, caps.now, on_undo)) for bucket in paced]

    def pass_time(self, monotonic: float) -> Iterator[Bucket]:
        """Set the clock; yields the buckets that have a token again."""
        self.caps.now = monotonic
        for _ in range(_DUE_AT_ONCE):
            if not self._due or self._due[0][0] > monotonic:
                return
            moment, bucket = heappop(self._due)
            if self._expected.get(bucket) == moment:
                del self._expected[bucket]
                self._opened[bucket] = None
                yield bucket

    def expect(self, bucket: Bucket) -> None:
        """Look at a bucket again when it has a token, if it lacks one now."""
        moment = self.caps.rates.next_token_at(bucket)
        if moment is None or moment <= self.caps.now or self._expected.get(bucket) == moment:
            return
        self._look_at(bucket, moment)

    def _look_at(self, bucket: Bucket, moment: float) -> None:
        self._expected[bucket] = moment
        heappush(self._due, (moment, bucket))

    def back(self, now: int) -> Iterator[Back]:
        """Yield jobs for which there is room; put each into its queue before the next."""
        left, kept = _BACK_AT_ONCE, self.caps.reservation.kept
        yield from self._reserved(now)
        for bucket in list(islice(self._opened, _BACK_AT_ONCE)):
            room = self.caps.room(bucket) - kept(bucket, None)
            while min(room, left) >= 1 and (back := self.aside.take(bucket, now)) is not None:
                left -= 1
                if not self.held_back(back.pool, back.ready):
                    room -= 1
                    yield back
            self._look_again(bucket)

    def _look_again(self, bucket: Bucket) -> None:
        """Keep looking at a bucket that has both room and jobs; wait for a token if it has none."""
        del self._opened[bucket]
        if not self.aside.has(bucket):
            return
        if self.caps.room(bucket) - self.caps.reservation.kept(bucket, None) >= 1:
            self._opened[bucket] = None
        else:
            self.expect(bucket)

    def _reserved(self, now: int) -> Iterator[Back]:
        """Yield the job for which places are kept, once all of them are free."""
        reservation = self.caps.reservation
        self._opened.update(dict.fromkeys(reservation.pass_time(now)))
        job_id = reservation.job_id
        if job_id is not None and any(map(self._is_far_off, reservation.buckets)):
            self._opened.update(dict.fromkeys(reservation.waits_no_more(job_id)))
        elif job_id is not None and all(self.caps.room(b) >= 1 for b in reservation.buckets):
            reservation.is_free(now)
            found = self.aside.take_job(job_id)
            if found is not None:
                yield found

    def _is_far_off(self, bucket: Bucket) -> bool:
        """Whether a bucket has its next token so late that no place is kept until then."""
        moment = self.caps.rates.next_token_at(bucket)
        return moment is not None and moment > self.caps.now + TAKEN_MS / 1000
