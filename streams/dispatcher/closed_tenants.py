"""Tracks disabled and erased tenants, so that none of their waiting jobs is leased.

The state follows the topic `tenants`. The store `jobs` keeps it under `T` tenant, with one letter
for disabled and one for erased. Memory holds the closed tenants, too. An erasure is final, whatever
its record says.
"""

from __future__ import annotations

import structlog

from streams.dispatcher.run_queue import RunQueue
from streams.errors import PoisonRecord
from streams.runtime.processor import Record
from streams.serde.codec import TENANT
from streams.serde.keys import after, split
from streams.state.store import KeyValueStore

log = structlog.get_logger(__name__)

ERASED_REASON = "tenant erased"
_TENANT = b"T"
_DISABLED, _ERASED = b"d", b"e"


class Tenants:
    """The tenants of one partition that are disabled or erased; the run queue blocks both."""

    def __init__(self, run_queue: RunQueue) -> None:
        self.disabled: set[str] = set()
        self.erased: set[str] = set()
        self._run_queue = run_queue
        self._touched: set[str] = set()

    def restored(self, store: KeyValueStore) -> None:
        """Load the state of all tenants from the store."""
        marks = {k[1:].decode(): v for k, v in store.range(_TENANT, after(_TENANT))}
        for tenant_id in self.disabled | self.erased | marks.keys():
            self._mark(tenant_id, marks.get(tenant_id, b""))
        self._touched.clear()

    def undone(self, store: KeyValueStore) -> None:
        """Reload the changed tenants after some writes were taken back."""
        for tenant_id in self._touched:
            self._mark(tenant_id, store.get(_key(tenant_id)) or b"")

    def committed(self) -> None:
        self._touched.clear()

    def apply(self, record: Record, store: KeyValueStore) -> bool:
        """Fold in a record of `tenants`; returns True if it erases a tenant."""
        address = _address(record.key)
        if address is None:
            return False
        tenant_id, kind = address
        before = store.get(_key(tenant_id)) or b""
        now = _folded(before, kind, tenant_id, record)
        if now != before:
            self._touched.add(tenant_id)
            store.put(_key(tenant_id), now) if now else store.delete(_key(tenant_id))
            self._mark(tenant_id, now)
        return _ERASED in now and _ERASED not in before

    def _mark(self, tenant_id: str, marks: bytes) -> None:
        for mark, tenants in ((_DISABLED, self.disabled), (_ERASED, self.erased)):
            tenants.add(tenant_id) if mark in marks else tenants.discard(tenant_id)
        self._run_queue.block(tenant_id) if marks else self._run_queue.unblock(tenant_id)


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
