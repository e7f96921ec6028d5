"""How much room the limits of one partition leave, counted from its living leases.

A limit that all partitions share leaves room only as far as this one holds permits (`permits`), and
its rate as far as starts were granted (`budgets`).

Whether a job may start is asked in three places, so that one that may not never hides the one
behind it: for its pool and type, for its tenant, and for what only the job itself is counted by.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from streams.limits.buckets import CIRCUIT, Bucket, Buckets, Counted
from streams.limits.budgets import Budgets
from streams.limits.circuits import Circuits
from streams.limits.paused import Paused
from streams.limits.permits import Permits
from streams.limits.rates import Rates
from streams.limits.reservation import Reservation
from streams.topology.breakers import Breaker
from streams.topology.limits import Limit


class Caps:
    """Counts running jobs by bucket, and forgets a bucket once its count is zero.

    `now` is in seconds of the monotonic clock; set it before asking for room.
    """

    def __init__(self, limits: tuple[Limit, ...], breakers: tuple[Breaker, ...] = ()) -> None:
        self.buckets = Buckets(limits, circuits=bool(breakers))
        self.rates = Rates(self.buckets.limits)
        self.circuits = Circuits(breakers)
        self.reservation = Reservation()
        self.permits = Permits()
        self.budgets = Budgets(self.buckets.limits)
        self.paused = Paused()
        self.now = 0.0
        self._running: dict[Bucket, int] = {}

    def set_own(
        self, tenant_id: str, limits: tuple[Limit, ...], running: Sequence[Counted]
    ) -> None:
        """Give a tenant limits of its own; `running` are all its jobs that run."""
        for job in running:
            self.ended(job)
        self.buckets.set_own(tenant_id, limits)
        self.rates.set_own(tenant_id, limits)
        for job in running:
            self.started(job)

    def type_room(self, pool: str, type_: str) -> float:
        """How many more jobs of a pool and type may start, whoever's they are."""
        if type_ in self.paused.types or pool in self.paused.pools:
            return 0
        return self._least(self.buckets.of_type(pool, type_))

    def type_free(self, pool: str, type_: str) -> float:
        """How many more jobs of a pool and type may start once there are permits for them."""
        if type_ in self.paused.types or pool in self.paused.pools:
            return 0
        return min(map(self.free, self.buckets.of_type(pool, type_)), default=inf)

    def pool_free(self, pool: str) -> float:
        """How many more jobs of a pool may start so, whatever their type."""
        if pool in self.paused.pools:
            return 0
        return min(map(self.free, self.buckets.of_pool(pool)), default=inf)

    def tenant_room(self, tenant_id: str) -> float:
        """How many more jobs of a tenant may start, whatever they are."""
        if tenant_id in self.paused.tenants:
            return 0
        return self._least(self.buckets.of_tenant(tenant_id))

    def places(self, own: tuple[Bucket, ...]) -> float:
        """How many jobs that these buckets count may start, but for places kept for another job."""
        return min(self.room(bucket) - self.reservation.kept(bucket, None) for bucket in own)

    def full(self, own: tuple[Bucket, ...], job_id: str | None = None) -> Bucket | None:
        """The first bucket of a job's own that lets it not start."""
        for bucket in own:
            if self.room(bucket) - self.reservation.kept(bucket, job_id) < 1:
                return bucket
        return None

    def room(self, bucket: Bucket) -> float:
        """How many more jobs a bucket lets start.

        It is 0, too, if more jobs run than a cap allows since it was lowered.
        """
        if bucket.limit == CIRCUIT:
            return self.circuits.room(bucket, self.running(bucket), self.now)
        free = self.free(bucket)
        if bucket.limit in self.buckets.shared:
            is_reserved = bucket in self.reservation.buckets
            permits = self.permits.room(bucket, self.running(bucket), is_reserved=is_reserved)
            free = min(free, permits)
        if bucket.limit in self.buckets.shared_rates:
            free = min(free, self.budgets.tokens(bucket, self.now))
        return free

    def free(self, bucket: Bucket) -> float:
        """How many more jobs a bucket lets start as far as this partition alone knows."""
        limit = self.buckets.limit(bucket.tenant_id, bucket.limit)
        if limit is None:  # a mark, or a limit that a tenant no longer has
            return 0 if bucket in self.paused.buckets else inf
        cap = limit.concurrency
        free = inf if cap is None else max(0, cap - self._running.get(bucket, 0))
        if limit.rate is None or bucket.limit in self.buckets.shared_rates:
            return free
        return min(free, self.rates.tokens(bucket, self.now))

    def next_room_at(self, bucket: Bucket) -> float | None:
        """When time alone makes room in a bucket: at its next token, or its circuit's next try."""
        if bucket.limit == CIRCUIT:
            return self.circuits.next_try_at(bucket)
        if bucket.limit in self.buckets.shared_rates:
            return self.budgets.asked_again_at(bucket)
        return self.rates.next_token_at(bucket)

    def running(self, bucket: Bucket) -> int:
        """How many jobs or calls of a bucket run."""
        return self._running.get(bucket, 0)

    def started(self, job: Counted) -> tuple[Bucket, ...]:
        """Count a job that runs; the buckets that it fills."""
        filled = self.buckets.all(job)
        for bucket in filled:
            self._running[bucket] = self._running.get(bucket, 0) + 1
        return filled

    def ended(self, job: Counted) -> tuple[Bucket, ...]:
        """Count a job that no longer runs; the buckets in which there is more room now."""
        freed = self.buckets.all(job)
        for bucket in freed:
            left = self._running[bucket] = self._running[bucket] - 1
            if not left:
                del self._running[bucket]
        return freed

    def _least(self, buckets: tuple[Bucket, ...]) -> float:
        return min(map(self.room, buckets), default=inf)
