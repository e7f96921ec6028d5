"""Limits: the values by which jobs are counted, and what they spend of rates.

How many run is counted from the jobs themselves (`limited`). What was spent of a rate is kept in
the transaction of the lease that spent it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

from streams.dispatcher import limit_rows
from streams.dispatcher.live_index import Live, live
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.spending import give_back, spend
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket
from streams.limits.keys import keyed
from streams.runtime.processor import Context
from streams.serde.job_states import LEASED, MOVABLE
from streams.serde.records import Job

_SWEEP_SECONDS = 0.5
_MOST = 2_000
"""So many rows or running jobs are looked at in one step, at most."""
_SKEW_MS = 1_000
"""How far the clocks of two machines may be apart: a new owner of a bucket waits that much longer,
so that the rate holds."""


class Limits(Part):
    """Counts jobs by the limits that are declared."""

    keys: ClassVar = limit_rows.KEYS

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._limited = shared.queue.limited
        self._behind: Bucket | None = None
        self._has_spent = bool(self._limited.caps.rates)
        self._swept_at = 0.0
        self._running: list[str] | None = None  # jobs to count anew

    def restored(self, ctx: Context) -> None:
        self._limited.caps.now = ctx.monotonic

    def restoring(self, ctx: Context) -> Iterator[None]:
        """Go on with what an earlier owner of the partition spent."""
        rows = limit_rows.all_of(ctx.store("parts"))
        while found := list(islice(rows, _MOST)):
            self._has_spent = True
            for bucket, arrival in found:
                left = (arrival + _SKEW_MS - ctx.now) / 1000
                self._limited.caps.rates.restored(bucket, ctx.monotonic + left, ctx.monotonic)
            yield

    def starts(self, step: Step, job: Job) -> None:
        """Spend a token of each rate that a lease falls under."""
        entry = live(job)
        if entry is not None and self._limited.caps.rates:
            self._has_spent = True
            spend(step, job.job_id, self._limited.caps.buckets.all(entry))

    def unbegun(self, step: Step, job: Job) -> None:
        """Give the tokens of a lease back."""
        entry = live(job)
        if entry is not None and self._limited.caps.rates:
            give_back(step, job.job_id, self._limited.caps.buckets.all(entry))

    def is_due(self, step: Step, live: Live) -> bool:
        return self.shared.unrouted and live.status not in MOVABLE

    def mend(self, step: Step, job: Job) -> bool:
        """Count a job by the present limits; those that go on by themselves follow their routes."""
        found = keyed(job, self.shared.limits_of(job.tenant_id))
        if found is not job:
            step.table.put(found)
        return found is not job

    def tick(self, step: Step) -> None:
        """Count what runs before anything else starts; forget buckets whose burst is whole."""
        if self.shared.uncounted:
            self._count_running(step)
        is_between = self._behind is None and step.monotonic < self._swept_at + _SWEEP_SECONDS
        if self._has_spent and not is_between:
            self._forget_some(step)

    def _count_running(self, step: Step) -> None:
        """Count some of the jobs that run by limits that may be new."""
        step.on_undo(self._count_again, self._running, self.shared.count_anew)
        if self.shared.count_anew:
            self._running, self.shared.count_anew = None, False
        running = self._to_count() if self._running is None else self._running
        changed = looked = 0
        for job_id in running[:_MOST]:
            looked += 1
            job = step.table.get(job_id)
            if job is not None and job.status in LEASED:
                changed += self.mend(step, job)
            if changed == AT_ONCE:
                break
        left = running[looked:]
        self._running, self.shared.uncounted = left or None, bool(left)

    def _to_count(self) -> list[str]:
        """The jobs that run, if they may lack values of the present limits."""
        has_keys = self._limited.caps.buckets.count_by_keys
        return list(self.shared.workers.running) if has_keys and self.shared.unrouted else []

    def _count_again(self, running: list[str] | None, anew: bool) -> None:
        self._running, self.shared.uncounted, self.shared.count_anew = running, True, anew

    def _forget_some(self, step: Step) -> None:
        """Look at more rows than are made meanwhile, so that they do not pile up."""
        most = min(AT_ONCE + 2 * self._limited.tokens.spent, _MOST)
        self._swept_at, self._limited.tokens.spent = step.monotonic, 0
        step.on_undo(setattr, self, "_behind", self._behind)
        found = list(islice(limit_rows.all_of(step.store, self._behind), most))
        self._behind = found[-1][0] if len(found) == most else None
        for bucket, _ in found:
            if self._limited.caps.rates.forget(bucket, step.monotonic, step.on_undo):
                limit_rows.delete(step.store, bucket)
