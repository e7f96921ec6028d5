"""Changes of tenants; each is a record on `tenants`."""

from __future__ import annotations

from dataclasses import replace

from streams.api.operator_state import AppState
from streams.api.refusal import invalid
from streams.api.rows.json_values import Json
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.tags import newest
from streams.api.tenants.writes import changing, written
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.tenants.limits import shared_names
from streams.tenants.settings import TenantSettings


async def put(state: AppState, tenant_id: str, settings: TenantSettings) -> Json:
    """Create a tenant, or replace its settings and enable it.

    Raises:
        Refusal: 409, it was erased; 422, a limit has the name of one that counts all tenants.
    """
    for name in shared_names(settings.limits, state.topology.limits):
        counts = "the topology's limit of this name counts all tenants together"
        raise invalid("limits", f"{name}: {counts}: give yours another name")
    body = settings.model_dump_json()
    async with changing(state, tenant_id):
        record = TenantRecord(tenant_id, "tenant", "", False, body, updated_at=wall_ms())
        return await _shown(state, await written(state, record))


async def disable(state: AppState, tenant_id: str) -> Json:
    """Disable a tenant: its hooks and submissions are refused, its data stays.

    Raises:
        Refusal: 404; 409, it was erased.
    """
    async with changing(state, tenant_id):
        shown = await known_tenant(state, tenant_id)
        record = await newest(state, (tenant_id, "tenant", "")) or shown
        gone = replace(record, disabled=True, updated_at=wall_ms())
        return await _shown(state, await written(state, gone))


async def show(state: AppState, tenant_id: str) -> Json:
    """Return a tenant and the names of its sources; refuse with 404 if it is unknown."""
    return await _shown(state, await known_tenant(state, tenant_id))


async def _shown(state: AppState, record: TenantRecord) -> Json:
    return await state.query(lambda db: tenants.shown_tenant(db, record))
