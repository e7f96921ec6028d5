"""Which tenants of a partition are disabled or erased, as the fold of the topic `tenants`.

Each stage that follows them keeps them in its own store under `T` tenant, with one letter for
disabled and one for erased. An erasure is final, whatever its record says.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from streams.errors import PoisonRecord
from streams.runtime.processor import Context, Record
from streams.serde.codec import TENANT
from streams.serde.keys import after, split
from streams.state.store import KeyValueStore

log = structlog.get_logger(__name__)

KEYS = {b"T": "closed tenants"}
_TENANT = b"T"
_DISABLED, _ERASED = b"d", b"e"


class ClosedTenants:
    """The `disabled` and the `erased` tenants of one partition.

    `changed` is called with a tenant and whether it is closed: after each change, after one that
    was undone, and for each tenant that `restored` finds.
    """

    def __init__(self, changed: Callable[[str, bool], object]) -> None:
        self.disabled: set[str] = set()
        self.erased: set[str] = set()
        self._changed = changed

    def __contains__(self, tenant_id: object) -> bool:
        return tenant_id in self.disabled or tenant_id in self.erased

    def restored(self, store: KeyValueStore) -> None:
        for key, marks in store.range(_TENANT, after(_TENANT)):
            self._mark(key[len(_TENANT) :].decode(), marks)

    def apply(self, ctx: Context, store: KeyValueStore, record: Record) -> str | None:
        """Fold in a record of `tenants`; returns the tenant if this record erased it."""
        address = address_of(record.key)
        if address is None or address[1] not in ("tenant", "erasure"):
            return None
        tenant_id, kind, _ = address
        key = _TENANT + tenant_id.encode()
        before = store.get(key) or b""
        now = _folded(before, kind, tenant_id, record)
        if now != before:
            store.put(key, now) if now else store.delete(key)
            ctx.on_undo(self._mark, tenant_id, before)
            self._mark(tenant_id, now)
        return tenant_id if _ERASED in now and _ERASED not in before else None

    def _mark(self, tenant_id: str, marks: bytes) -> None:
        for mark, tenants in ((_DISABLED, self.disabled), (_ERASED, self.erased)):
            tenants.add(tenant_id) if mark in marks else tenants.discard(tenant_id)
        self._changed(tenant_id, bool(marks))


def address_of(key: bytes | None) -> tuple[str, str, str] | None:
    """Tenant, kind and id that a key of `tenants` names; None for a key of another form.

    Skip the record of such a key: its value may be a sealed secret, and a dead letter would keep
    that past its tenant's erasure.
    """
    try:
        tenant_id, kind, id_ = split(key or b"")
    except ValueError:
        return None
    return tenant_id, kind, id_


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
            "a tenant's record cannot be read, the tenant is closed: set the tenant again",
            tenant_id=tenant_id,
            error=str(error),
        )
        return True
