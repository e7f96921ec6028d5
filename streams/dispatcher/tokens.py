"""Tokens of the rates of one partition, and at which buckets to look again as time passes.

A start spends a token of each rate that counts it. A bucket without a token, or with an open
circuit, gets room again by time alone: then the jobs that wait for it are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from streams.limits.buckets import Bucket
from streams.limits.caps import Caps
from streams.limits.rates import Undo

_DUE_AT_ONCE = 1_000
"""So many buckets that have a token again are looked at in one call, at most."""


class Tokens:
    """Spends the tokens of one partition's rates, and knows when there is one again."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._due: list[tuple[float, Bucket]] = []  # a heap of buckets that wait for a token
        self._expected: dict[Bucket, float] = {}
        self.spent = 0
        """How many were spent since the last look at what is spent of rates."""

    def spend(
        self, job_id: str, buckets: Iterable[Bucket], on_undo: Undo
    ) -> list[tuple[Bucket, float]]:
        """Take a token of each of these buckets that has a rate; the new arrival times."""
        caps = self._caps
        found = [bucket for bucket in buckets if caps.rates.pace(bucket) is not None]
        for bucket in found:
            if bucket.limit in caps.buckets.shared_rates:
                caps.budgets.spend(bucket, caps.now, job_id, on_undo)
        paced = self._paced(found)
        for bucket in paced:
            on_undo(self._look_at, bucket, caps.now)  # called once its arrival time is back
        return [(bucket, caps.rates.spend(bucket, caps.now, job_id, on_undo)) for bucket in paced]

    def give_back(
        self, job_id: str, buckets: Iterable[Bucket], on_undo: Undo
    ) -> Iterator[tuple[Bucket, float]]:
        """A job did not start after all: yields the new arrival times of its rates."""
        caps, buckets = self._caps, tuple(buckets)
        for bucket in buckets:
            if caps.budgets.give_back(bucket, caps.now, job_id, on_undo):
                self._look_at(bucket, caps.now)
        for bucket in self._paced(buckets):
            arrival = caps.rates.give_back(bucket, caps.now, job_id, on_undo)
            if arrival is not None:
                self._look_at(bucket, caps.now)
                yield bucket, arrival

    def pass_time(self, monotonic: float) -> Iterator[Bucket]:
        """Set the clock; yields the buckets that have a token again."""
        self._caps.now = monotonic
        for _ in range(_DUE_AT_ONCE):
            if not self._due or self._due[0][0] > monotonic:
                return
            moment, bucket = heappop(self._due)
            if self._expected.get(bucket) == moment:
                del self._expected[bucket]
                yield bucket

    def expect(self, bucket: Bucket) -> None:
        """Look at a bucket again when time makes room in it, if it has none now."""
        moment = self._caps.next_room_at(bucket)
        if moment is None or moment <= self._caps.now or self._expected.get(bucket) == moment:
            return
        self._look_at(bucket, moment)

    def _paced(self, buckets: Iterable[Bucket]) -> list[Bucket]:
        """The buckets of rates that this partition has to itself."""
        rates, shared = self._caps.rates, self._caps.buckets.shared_rates
        paced = [b for b in buckets if rates.pace(b) is not None and b.limit not in shared]
        self.spent += len(paced)
        return paced

    def _look_at(self, bucket: Bucket, moment: float) -> None:
        self._expected[bucket] = moment
        heappush(self._due, (moment, bucket))
