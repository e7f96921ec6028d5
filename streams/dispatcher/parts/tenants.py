"""Ends the jobs of erased tenants, and follows which tenants are closed and what they weigh.

The store `parts` keeps the weight of a tenant under `W` tenant, unless it is 1.
"""

from __future__ import annotations

from typing import ClassVar

from streams import closed_tenants
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import stop
from streams.errors import PoisonRecord
from streams.runtime.part import reads
from streams.runtime.processor import Context, Record
from streams.serde.codec import TENANT
from streams.serde.job_states import LEASED
from streams.serde.keys import after
from streams.serde.records import Job
from streams.tenants.settings import tenant_settings

ERASED_REASON = "tenant erased"
_WEIGHT = b"W"


class Tenants(Part):
    """Closes and opens tenants; the run queue blocks those that are disabled or erased."""

    keys: ClassVar = {**closed_tenants.KEYS, _WEIGHT: "weights of tenants"}

    def restored(self, ctx: Context) -> None:
        """Load all closed tenants, and all weights."""
        store = ctx.store("parts")
        self.shared.closed.restored(store)
        for key, value in store.range(_WEIGHT, after(_WEIGHT)):
            self.shared.queue.weigh(key[len(_WEIGHT) :].decode(), float(value))

    @reads("tenants")
    def apply(self, step: Step, record: Record) -> None:
        """Fold in a record of `tenants`; what waits of an erased tenant is ended by a sweep."""
        if self.shared.closed.apply(step.ctx, step.store, record) is not None:
            self.shared.sweep_now = True
        address = closed_tenants.address_of(record.key)
        if address is None:
            return
        tenant_id, kind, _ = address
        if tenant_id in self.shared.closed.erased:
            self._weigh(step, tenant_id, 1)
        elif kind == "tenant":
            self._weigh(step, tenant_id, _weight(record))

    def _weigh(self, step: Step, tenant_id: str, weight: float) -> None:
        key = _WEIGHT + tenant_id.encode()
        before = float(step.store.get(key) or 1)
        if weight != before:
            step.store.put(key, str(weight).encode()) if weight != 1 else step.store.delete(key)
            step.on_undo(self.shared.queue.weigh, tenant_id, before)
            self.shared.queue.weigh(tenant_id, weight)

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


def _weight(record: Record) -> float:
    """The weight that a tenant's record sets; 1 if it cannot be read: then the tenant is closed."""
    if record.value is None:
        return 1
    try:
        return tenant_settings(TENANT.decode(record.value)).weight
    except (PoisonRecord, ValueError):
        return 1
