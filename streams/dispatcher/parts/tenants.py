"""Ends the jobs of erased tenants, and follows which tenants are closed."""

from __future__ import annotations

from typing import ClassVar

from streams import closed_tenants
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import stop
from streams.runtime.part import reads
from streams.runtime.processor import Context, Record
from streams.serde.job_states import LEASED
from streams.serde.records import Job

ERASED_REASON = "tenant erased"


class Tenants(Part):
    """Closes and opens tenants; the run queue blocks those that are disabled or erased."""

    keys: ClassVar = closed_tenants.KEYS

    def restored(self, ctx: Context) -> None:
        """Load all closed tenants."""
        self.shared.closed.restored(ctx.store("parts"))

    @reads("tenants")
    def apply(self, step: Step, record: Record) -> None:
        """Fold in a record of `tenants`; what waits of an erased tenant is ended by a sweep."""
        if self.shared.closed.apply(step.ctx, step.store, record) is not None:
            self.shared.sweep_now = True

    def admitted(self, step: Step, job: Job) -> None:
        if job.tenant_id in self.shared.closed.erased:
            stop(step, job, ERASED_REASON)

    def is_due(self, step: Step, live: Live) -> bool:
        is_told = live.status in LEASED and live.cancel is not None
        return live.tenant_id in self.shared.closed.erased and not is_told

    def mend(self, step: Step, job: Job) -> bool:
        """End a job of an erased tenant."""
        stop(step, job, ERASED_REASON)
        return True
