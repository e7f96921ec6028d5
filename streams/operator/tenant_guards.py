"""How a tenant stands: known, enabled, erased; what calls on its behalf ask first."""

from __future__ import annotations

from streams.operator.http.app_state import AppState
from streams.operator.http.refusal import Refusal, unknown
from streams.operator.resources import tenants
from streams.serde.records import TenantRecord


async def known_tenant(state: AppState, tenant_id: str) -> TenantRecord:
    """The tenant's record.

    Raises:
        Refusal: 404.
    """
    record = await state.ask(lambda db: tenants.tenant(db, tenant_id))
    if record is None:
        raise unknown("tenant", tenant_id, f"create it with PUT /v1/tenants/{tenant_id}")
    return record


async def enabled_tenant(state: AppState, tenant_id: str) -> TenantRecord:
    """The record of a tenant that may have work done.

    Raises:
        Refusal: 404 unknown, 409 erased, 403 disabled.
    """
    record = await known_tenant(state, tenant_id)
    await refuse_erased(state, tenant_id)
    if record.disabled:
        enable = f"PUT /v1/tenants/{tenant_id} enables it"
        raise Refusal(403, "tenant-disabled", f"tenant {tenant_id!r} is disabled: {enable}")
    return record


async def refuse_erased(state: AppState, tenant_id: str) -> None:
    """Let no erased tenant come back: the ids of its events and jobs still stand on the topics.

    Raises:
        Refusal: 409.
    """
    if await state.ask(lambda db: tenants.setting(db, tenant_id, "erasure", "")):
        raise Refusal(409, "tenant-erased", f"tenant {tenant_id!r} was erased: its id is not "
                      "given again, choose another")  # fmt: skip
