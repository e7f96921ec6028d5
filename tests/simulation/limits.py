"""Limits: no more run than a cap allows, and no more start than a rate does, after any commit."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from simulation.outside import Violation
from streams.topology.limits import Limit, Rate

if TYPE_CHECKING:
    from simulation.world import World
    from streams.serde.records import Job

_SLACK = 0.05
"""Of a start: times are in whole milliseconds, and a machine knows the broker's within a few."""


class Setup(NamedTuple):
    """The limits of a story beside the tenant's cap; 0: there is none.

    `cap` is that of a subject's jobs, and of a tenant's jobs of one type; `rated` says whether a
    tenant's starts have a rate.
    """

    cap: int = 0
    rated: bool = False


PER_TENANT, SUBJECT, OF_TYPE, RATED = "per-tenant", "a-subject", "of-a-type", "starts"
_RATE, _BURST = Rate(30, 60), 3


@cache
def limits_of(tenant_cap: int, setup: Setup) -> tuple[Limit, ...]:
    """The limits that the topology declares."""
    found = [Limit(PER_TENANT, "tenant", concurrency=tenant_cap)] if tenant_cap else []
    if setup.cap:
        found.append(Limit(SUBJECT, "key", by="event.subject", concurrency=setup.cap))
        found.append(Limit(OF_TYPE, "job_type", per="tenant", concurrency=setup.cap + 1))
    if setup.rated:
        found.append(Limit(RATED, "tenant", rate=_RATE, burst=_BURST))
    return tuple(found)


Bucket = tuple[str, str, str | None]
"""A limit, a tenant, and a value of it."""

Start = tuple[float, str, int]
"""When a job started, its id and its epoch."""


class Limits:
    """What runs and what has started, counted from the topic `jobs` alone."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._running: dict[str, tuple[Bucket, ...]] = {}
        self._counts: Counter[Bucket] = Counter()
        self._started: list[tuple[Job, tuple[Bucket, ...]]] = []
        self._starts: dict[str, list[Start]] = defaultdict(list)
        """By tenant."""

    def changed(self, job_id: str, job: Job | None, old: Job | None, *, started: bool) -> None:
        """A record of a job that may have started, or may not have begun what it started."""
        for bucket in self._running.pop(job_id, ()):
            self._counts[bucket] -= 1
        if old is not None and old.status == "running" and _is_refused(job, old, started=started):
            starts = self._starts[old.tenant_id]
            starts[:] = [each for each in starts if each[1:] != (job_id, old.epoch)]
        if job is not None and job.status == "running":
            buckets = self._running[job_id] = _buckets(job)
            self._counts.update(buckets)
            if started:
                self._started.append((job, buckets))

    def committed(self, at_ms: int) -> None:
        """All records of a transaction were read, and more jobs may have started.

        Raises:
            Violation: too many run or have started.
        """
        started, self._started = self._started, []
        caps = self._caps()
        for job, buckets in started:
            for bucket in buckets:
                cap, runs = caps.get(bucket[0]), self._counts[bucket]
                if cap is not None and runs > cap:
                    raise Violation("cap", f"{job.job_id} starts: {bucket} runs {runs} of {cap}")
            self._spend(job, at_ms / 1000)

    def is_held_back(self, job: Job) -> bool:
        """Whether a job that waits may have to, because of a limit."""
        caps = self._caps()
        is_full = any(self._counts[b] >= caps[b[0]] for b in _buckets(job) if b[0] in caps)
        return is_full or self._world.wiring.limits.rated

    def _caps(self) -> dict[str, int]:
        wiring = self._world.wiring
        return _caps(wiring.cap, wiring.limits)

    def _spend(self, job: Job, now: float) -> None:
        """In any window of s seconds at most burst + s x rate start.

        That is so if what the starts spend, less what has come back between them, is never more
        than the burst.
        """
        if not self._world.wiring.limits.rated:
            return
        starts, begin, spent, since = self._starts[job.tenant_id], 0, 0.0, -inf
        starts.append((now, job.job_id, job.epoch))
        for number, (at, _, _) in enumerate(starts):
            left = spent - (at - since) * _RATE.count / _RATE.seconds
            if left <= 0:
                begin = number
            spent, since = max(0.0, left) + 1, at
        if spent > _BURST + _SLACK:
            raise Violation("rate", f"{job.job_id} starts at {now:.3f}: {spent:.2f} of {_BURST}")
        del starts[:begin]


@cache
def _caps(tenant_cap: int, setup: Setup) -> dict[str, int]:
    declared = limits_of(tenant_cap, setup)
    return {each.name: each.concurrency for each in declared if each.concurrency is not None}


def _is_refused(job: Job | None, old: Job, *, started: bool) -> bool:
    """Whether a lease was refused: the attempt of its run does not count."""
    return job is not None and job.attempts < old.attempts + started


def _buckets(job: Job) -> tuple[Bucket, ...]:
    subject = None if job.event is None else job.event.subject
    tenant = job.tenant_id
    return (PER_TENANT, tenant, None), (SUBJECT, tenant, subject), (OF_TYPE, tenant, job.type)
