"""Reports jobs for which no lease can be made, and why: on `jobs.held`, in the log, in a gauge.

Jobs wait if their type has no worker, their pool is not declared, their tenant is
disabled, or all slots of their workers are taken; an operator must be able to see this. The store
`parts` also keeps each report, under `H` and the record's key, so that a restart does not forget
since when a type has had no worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Literal, get_args

import structlog

from streams.dispatcher import metrics
from streams.dispatcher.part import Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.runtime.processor import Context
from streams.serde.codec import HELD
from streams.serde.keys import after, held_key
from streams.serde.records import Held

log = structlog.get_logger(__name__)

TOPIC = "jobs.held"
Reason = Literal["no_worker", "no_pool", "tenant_disabled", "no_slot"]
_REASONS: tuple[Reason, ...] = get_args(Reason)
_AFTER_GRACE = ("no_worker", "no_slot")
_HELD = b"H"
_LOOK_SECONDS = 2.0
_GRACE_SECONDS = 10.0
"""A type without a worker is reported only after this long, because a deployment may be under way.
The same holds for a type without a free slot, because every busy pool lacks one for moments."""
_LINGER_SECONDS = 3 * _LOOK_SECONDS
"""`no_slot` ends only after this long without it: in a busy pool a slot is free for moments."""
_RECOUNT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """Jobs that are held, first seen at `at` and last at `found_at`.

    `told_at` is when they were last reported. All times are monotonic seconds.
    """

    held: Held
    at: float
    found_at: float
    told_at: float | None = None


class HeldJobs(Part):
    """The held jobs of one partition, as last seen and reported."""

    keys: ClassVar = {_HELD: "reports of held jobs"}
    awaits_logs = True

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._seen: dict[bytes, _Seen] = {}
        self._shown: set[tuple[str, str]] = set(product(shared.topology.pools, _REASONS))
        self._looked_at = float("-inf")

    def restored(self, ctx: Context) -> None:
        """Load the reports from the store."""
        stored, now = ctx.store("parts").range(_HELD, after(_HELD)), ctx.monotonic
        records = (HELD.decode(value) for _, value in stored)
        self._seen = {_key(held): _Seen(held, now, now, now) for held in records}

    def closed(self) -> None:
        """Drop the partition's gauge, since another process owns the partition now."""
        for pool, reason in self._shown:
            metrics.HELD.remove(str(self.shared.partition), pool, reason)

    def tick(self, step: Step) -> None:
        """Report every few seconds which jobs are held, and which are no longer held."""
        monotonic = step.monotonic
        if monotonic - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = monotonic
        step.on_undo(self._return_to, dict(self._seen))
        found = {_key(held): held for held in self._found(step)}
        lingering = self._lingering(self.shared.queue.waiting(), monotonic)
        for key in self._seen.keys() - found.keys() - lingering:
            self._over(key, step)
        for key, held in found.items():
            self._seen[key] = self._told(key, self._noticed(key, held, step), step)
        self.shared.without_worker = {
            (seen.held.pool, seen.held.type): seen.held.since
            for seen in self._seen.values()
            if seen.held.reason == "no_worker"
        }
        self._observe()

    def _found(self, step: Step) -> Iterator[Held]:
        types = {pool: self.shared.workers.types(pool) for pool in self.topology.pools}
        waiting, queued = self.shared.queue.waiting(), self.shared.queue.queued()
        starving = {pool: self.shared.queue.starving(pool) for pool, _ in waiting}
        for (pool, type_), jobs in waiting.items():
            if jobs and pool not in types:
                yield self._held(pool, type_, None, "no_pool", jobs, step)
            elif jobs and type_ not in types[pool]:
                yield self._held(pool, type_, None, "no_worker", jobs, step)
            elif jobs and type_ in starving[pool]:
                yield self._held(pool, type_, None, "no_slot", queued[pool, type_], step)
        for (pool, type_, tenant_id), jobs in self.shared.queue.blocked().items():
            if tenant_id in self.shared.closed.disabled:
                yield self._held(pool, type_, tenant_id, "tenant_disabled", jobs, step)

    def _held(
        self,
        pool: str,
        type_: str,
        tenant_id: str | None,
        reason: Reason,
        jobs: int,
        step: Step,
    ) -> Held:
        hours = self.topology.unhandled_ms / 3_600_000
        detail = {
            "no_worker": f"no worker of pool {pool!r} handles {type_!r}: start one that does, or "
            f"mend the route; after {hours:g} h without one its jobs are dead",
            "no_pool": f"pool {pool!r} is not declared: declare it in the topology, give the type "
            "another one, or move its jobs",
            "tenant_disabled": f"tenant {tenant_id} is disabled: enable it, or cancel its jobs",
            "no_slot": f"no worker of pool {pool!r} that handles {type_!r} has a free slot: wait "
            "until a job ends, start another worker, or give the workers more --slots",
        }[reason]
        return Held(self.shared.partition, pool, type_, tenant_id, reason, step.now, jobs, detail)

    def _lingering(self, waiting: Mapping[tuple[str, str], int], monotonic: float) -> set[bytes]:
        """Keys of reports that a slot which was free for a moment does not end."""
        return {
            key
            for key, seen in self._seen.items()
            if seen.held.reason == "no_slot"
            and waiting.get((seen.held.pool, seen.held.type))
            and monotonic - seen.found_at < _LINGER_SECONDS
        }

    def _noticed(self, key: bytes, held: Held, step: Step) -> _Seen:
        before, monotonic = self._seen.get(key), step.monotonic
        if before is not None and before.held.reason == held.reason:
            held = replace(held, since=before.held.since)
            return replace(before, held=held, found_at=monotonic)
        if before is not None and held.reason in _AFTER_GRACE:
            self._over(key, step)  # The old reason is wrong, and the new one is not told yet.
        return _Seen(held, monotonic, monotonic)

    def _told(self, key: bytes, seen: _Seen, step: Step) -> _Seen:
        now, store = step.monotonic, step.store
        if seen.told_at is None:
            if seen.held.reason in _AFTER_GRACE and now - seen.at < _GRACE_SECONDS:
                return seen
            tell = log.info if seen.held.reason == "no_slot" else log.warning
            tell(
                "jobs are held",
                reason=seen.held.reason,
                pool=seen.held.pool,
                type=seen.held.type,
                tenant_id=seen.held.tenant_id,
                detail=seen.held.detail,
            )
        elif now - seen.told_at < _RECOUNT_SECONDS:
            return seen
        value = HELD.encode(seen.held)
        if store.get(_HELD + key) != value:
            store.put(_HELD + key, value)
            step.ctx.forward(TOPIC, key, value)
        return replace(seen, told_at=now)

    def _over(self, key: bytes, step: Step) -> None:
        """Forget jobs that were held, and end their report if there is one."""
        seen, store = self._seen.pop(key), step.store
        if store.get(_HELD + key) is not None:
            store.delete(_HELD + key)
            step.ctx.forward(TOPIC, key, None)
            log.info("jobs are held no more", pool=seen.held.pool, type=seen.held.type)

    def _return_to(self, seen: dict[bytes, _Seen]) -> None:
        """See again as before; what was not told is told the next time."""
        self._seen, self._looked_at = seen, float("-inf")

    def _observe(self) -> None:
        """Show each reason of each declared pool, and of any other that has had held jobs."""
        jobs = Counter[tuple[str, str]]()
        for seen in self._seen.values():
            if seen.told_at is not None:
                jobs[seen.held.pool, seen.held.reason] += seen.held.jobs
        self._shown |= jobs.keys()
        for pool, reason in self._shown:
            metrics.HELD.labels(str(self.shared.partition), pool, reason).set(jobs[pool, reason])


def _key(held: Held) -> bytes:
    return held_key(held.partition, held.pool, held.type, held.tenant_id)
