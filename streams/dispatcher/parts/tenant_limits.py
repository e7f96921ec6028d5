"""Limits that tenants have of their own, as the topic `tenants` sets them.

The store `parts` keeps a tenant's under `U` tenant, as JSON. When they change, its running jobs are
counted anew before anything else starts; the sweep works out the values of those that wait.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import TypeAdapter

from streams.closed_tenants import address_of
from streams.dispatcher.live_index import Live, live
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.runtime.part import reads
from streams.runtime.processor import Context, Record
from streams.serde.codec import TENANT
from streams.serde.keys import after
from streams.tenants.limits import own
from streams.tenants.settings import tenant_settings
from streams.topology.limits import KEYED, Limit

_LIMITS = b"U"
_JSON = TypeAdapter(tuple[Limit, ...])


class TenantLimits(Part):
    """The limits of one partition's tenants."""

    keys: ClassVar = {_LIMITS: "limits that tenants have of their own"}

    def restored(self, ctx: Context) -> None:
        for key, value in ctx.store("parts").range(_LIMITS, after(_LIMITS)):
            limits = _JSON.validate_json(value)
            self.shared.queue.limit_tenant(key[len(_LIMITS) :].decode(), limits, ())

    @reads("tenants")
    def follow(self, step: Step, record: Record) -> None:
        """Count a tenant's jobs by the limits that a record sets."""
        address = address_of(record.key)
        if address is None or address[1] != "tenant":
            return
        tenant_id, limits = address[0], _limits(record)
        key = _LIMITS + tenant_id.encode()
        stored = step.store.get(key)
        before = () if stored is None else _JSON.validate_json(stored)
        if limits == before:
            return
        step.store.put(key, _JSON.dump_json(limits)) if limits else step.store.delete(key)
        running = self._running(step, tenant_id)
        step.on_undo(self.shared.queue.limit_tenant, tenant_id, before, running)
        self.shared.queue.limit_tenant(tenant_id, limits, running)
        if any(limit.scope in KEYED for limit in (*before, *limits)):
            self._count_anew(step)

    def _running(self, step: Step, tenant_id: str) -> list[Live]:
        """A tenant's jobs that run."""
        leases = self.shared.workers.running.values()
        ids = [lease.job_id for lease in leases if lease.tenant_id == tenant_id]
        found = (live(step.table.get(job_id)) for job_id in ids)
        return [entry for entry in found if entry is not None]

    def _count_anew(self, step: Step) -> None:
        """Work out the values of jobs again: of those that run before anything else starts."""
        shared = self.shared
        for name in ("unrouted", "uncounted", "count_anew", "sweep_anew"):
            step.on_undo(setattr, shared, name, getattr(shared, name))
            setattr(shared, name, True)


def _limits(record: Record) -> tuple[Limit, ...]:
    """The limits that a tenant's record sets; none if it cannot be read: the tenant is closed."""
    if record.value is None:
        return ()
    try:
        return own(tenant_settings(TENANT.decode(record.value)).limits)
    except (PoisonRecord, ValueError):
        return ()
