"""Tracks disabled and erased tenants, so that none of their waiting jobs is leased.

The state follows the topic `tenants`. The store `parts` keeps it under `T` tenant, with one letter
for disabled and one for erased. An erasure is final, whatever its record says.
"""

from __future__ import annotations

from typing import ClassVar

import structlog

from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Part, reads
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import stop
from streams.errors import PoisonRecord
from streams.runtime.processor import Context, Record
from streams.serde.codec import TENANT
from streams.serde.job_states import RUNNING
from streams.serde.keys import after, split
from streams.serde.records import Job

log = structlog.get_logger(__name__)

ERASED_REASON = "tenant erased"
_TENANT = b"T"
_DISABLED, _ERASED = b"d", b"e"


class Tenants(Part):
    """Closes and opens tenants; the run queue blocks those that are disabled or erased."""

    keys: ClassVar = {_TENANT: "closed tenants"}

    def restored(self, ctx: Context) -> None:
        """Load the state of all closed tenants."""
        for key, marks in ctx.store("parts").range(_TENANT, after(_TENANT)):
            self._mark(key[1:].decode(), marks)

    @reads("tenants")
    def apply(self, step: Step, record: Record) -> None:
        """Fold in a record of `tenants`; what waits of an erased tenant is ended by a sweep."""
        address = _address(record.key)
        if address is None:
            return
        tenant_id, kind = address
        before = step.store.get(_key(tenant_id)) or b""
        now = _folded(before, kind, tenant_id, record)
        if now != before:
            step.store.put(_key(tenant_id), now) if now else step.store.delete(_key(tenant_id))
            step.on_undo(self._mark, tenant_id, before)
            self._mark(tenant_id, now)
        if _ERASED in now and _ERASED not in before:
            self.shared.sweep_now = True

    def admitted(self, step: Step, job: Job) -> None:
        if job.tenant_id in self.shared.erased:
            stop(step, job, ERASED_REASON)

    def is_due(self, step: Step, live: Live) -> bool:
        is_told = live.status == RUNNING and live.cancel is not None
        return live.tenant_id in self.shared.erased and not is_told

    def mend(self, step: Step, job: Job) -> bool:
        """End a job of an erased tenant."""
        stop(step, job, ERASED_REASON)
        return True

    def _mark(self, tenant_id: str, marks: bytes) -> None:
        shared = self.shared
        for mark, tenants in ((_DISABLED, shared.disabled), (_ERASED, shared.erased)):
            tenants.add(tenant_id) if mark in marks else tenants.discard(tenant_id)
        shared.queue.block(tenant_id) if marks else shared.queue.unblock(tenant_id)


def _folded(before: bytes, kind: str, tenant_id: str, record: Record) -> bytes:
    erased = _ERASED in before or (kind == "erasure" and record.value is not None)
    disabled = _DISABLED in before
    if kind == "tenant":
        disabled = record.value is not None and _is_disabled(tenant_id, record.value)
    return _DISABLED * disabled + _ERASED * erased


def _is_disabled(tenant_id: str, value: bytes) -> bool:
    """Whether a tenant is disabled; an unreadable record closes it, as it does in the ingress."""
    try:
        return TENANT.decode(value).disabled
    except PoisonRecord as error:
        log.error(
            "a tenant's record cannot be read, its jobs are held: set the tenant again",
            tenant_id=tenant_id,
            error=str(error),
        )
        return True


def _address(key: bytes | None) -> tuple[str, str] | None:
    """Tenant and kind of a record; None for a record that does not concern a whole tenant.

    A record with a key of another form is skipped: its value may be a sealed secret, and a dead
    letter would keep that past its tenant's erasure.
    """
    try:
        tenant_id, kind, _ = split(key or b"")
    except ValueError:
        return None
    return (tenant_id, kind) if kind in ("tenant", "erasure") else None


def _key(tenant_id: str) -> bytes:
    return _TENANT + tenant_id.encode()
