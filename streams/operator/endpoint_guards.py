"""Checks that an endpoint takes deliveries, before a call drives them anew."""

from __future__ import annotations

from streams.operator.http.app_state import AppState
from streams.operator.http.refusal import Refusal
from streams.operator.http.tenant_writes import standing_endpoint
from streams.operator.resources.endpoints import endpoint_state
from streams.operator.tenant_guards import known_tenant, refuse_erased
from streams.serde.delivery_records import EndpointState
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import endpoint_settings


async def present_endpoint(state: AppState, tenant_id: str, name: str) -> TenantRecord:
    """Return the record of an endpoint, which may be disabled.

    Raises:
        Refusal: 404 the tenant is unknown; 409 it was erased, or it has no such endpoint.
    """
    await known_tenant(state, tenant_id)
    await refuse_erased(state, tenant_id)
    record = await standing_endpoint(state, tenant_id, name)
    if record is None:
        where = f"/v1/tenants/{tenant_id}/endpoints/{name}"
        missing = f"tenant {tenant_id!r} has no endpoint {name!r}: create it with PUT {where}"
        raise Refusal(409, "endpoint-missing", missing)
    return record


async def require_enabled(state: AppState, record: TenantRecord) -> None:
    """Check that neither a person nor the delivery stage has disabled an endpoint.

    Raises:
        Refusal: 409, it is disabled.
    """
    found = await state.query(lambda db: endpoint_state(db, record.tenant_id, record.id))
    why = _disabled_because(record, found)
    if why is not None:
        where = f"/v1/tenants/{record.tenant_id}/endpoints/{record.id}"
        enable = f'PUT {where} {{"enabled":true}} enables it'
        raise Refusal(
            409,
            "endpoint-disabled",
            f"endpoint {record.id!r} is disabled ({why}): {enable}, then recover it",
        )


def _disabled_because(record: TenantRecord, state: EndpointState) -> str | None:
    settings = endpoint_settings(record)
    if not settings.enabled:
        return "by its settings"
    # A later PUT with enabled true enables an endpoint that the stage has disabled; a rotation or
    # a rewrapping writes its record too, and does not.
    return state.disabled_because if (state.disabled_at or 0) >= settings.set_at else None
