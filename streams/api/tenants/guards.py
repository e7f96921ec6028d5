"""Checks that a tenant is known, enabled and not erased, before a call does work for it."""

from __future__ import annotations

from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import put
from streams.api.tenants import table as tenants
from streams.serde.records import TenantRecord


async def known_tenant(state: AppState, tenant_id: str) -> TenantRecord:
    """Return the tenant's record.

    Raises:
        Refusal: 404, the tenant is unknown.
    """
    record = await state.query(lambda db: tenants.tenant(db, tenant_id))
    if record is None:
        raise unknown_tenant(tenant_id)
    return record


def unknown_tenant(tenant_id: str) -> Refusal:
    """Return the 404 of a tenant that does not exist, or not for the caller."""
    create = put("tenants", tenant_id)
    return unknown("tenant", tenant_id, f"create it with {create}", create)


async def enabled_tenant(state: AppState, tenant_id: str) -> TenantRecord:
    """Return the record of a tenant for which work may be done.

    Raises:
        Refusal: 404 unknown, 409 erased, 403 disabled.
    """
    record = await known_tenant(state, tenant_id)
    await refuse_erased(state, tenant_id)
    if record.disabled:
        enable = put("tenants", tenant_id)
        detail = f"tenant {tenant_id!r} is disabled: {enable} enables it"
        raise Refusal(403, "tenant-disabled", detail, remedy=enable)
    return record


async def refuse_erased(state: AppState, tenant_id: str) -> None:
    """Check that a tenant was not erased: ids of its events and jobs are still on the topics.

    Raises:
        Refusal: 409, it was erased.
    """
    if await state.query(lambda db: tenants.erasure(db, tenant_id)):
        choose = "its id cannot be used again, choose another"
        raise Refusal(409, "tenant-erased", f"tenant {tenant_id!r} was erased: {choose}")
