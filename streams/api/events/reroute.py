"""Makes the job of an event that no route matched at first."""

from __future__ import annotations

from streams.api.decisions import decided
from streams.api.events.route_request import RouteRequest
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState, not_shown
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import enabled_tenant
from streams.serde import ids
from streams.serde.records import Reroute


async def reroute(state: AppState, tenant_id: str, wanted: RouteRequest) -> Json:
    """Make an event's job, unless it has one; return the job, or that no decision is known yet.

    Raises:
        Refusal: 403, 404 or 409, the tenant gets no jobs; 409, the dispatcher refuses; 503, the
            read model is late.
    """
    await enabled_tenant(state, tenant_id)
    job_id = ids.event_job_id(tenant_id, wanted.source, wanted.dedup_key)
    fingerprint = ids.fingerprint(tenant_id, wanted.source, wanted.dedup_key)
    command = Reroute(fingerprint, wanted.note, state.principal.id)
    decision = await decided(state, tenant_id, job_id, command, "jobs")
    if not decision.is_known:
        return decision.json()
    shown = await state.query(lambda db: jobs.shown_job(db, job_id, state.topology))
    if shown is None:
        raise not_shown()
    return shown
