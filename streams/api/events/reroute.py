"""Makes the job of an event that no route matched at first."""

from __future__ import annotations

import sqlite3

from streams.api.command_results import run_command
from streams.api.events.route_request import RouteRequest
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState, not_shown
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import enabled_tenant
from streams.serde import ids
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, Reroute


async def reroute(state: AppState, tenant_id: str, wanted: RouteRequest) -> Json:
    """Make an event's job, unless it has one; return the job.

    Raises:
        Refusal: 403, 404 or 409, the tenant gets no jobs; 409, the dispatcher refuses; 503, the
            read model is late.
    """
    await enabled_tenant(state, tenant_id)
    job_id = ids.event_job_id(tenant_id, wanted.source, wanted.dedup_key)
    await state.read_barrier(("jobs", state.home(tenant_id)))
    before = await state.query(lambda db: jobs.job(db, job_id))
    if before is None or before.status in TERMINAL:
        fingerprint = ids.fingerprint(tenant_id, wanted.source, wanted.dedup_key)
        command = Reroute(fingerprint, wanted.note, state.principal.id)
        await _route(state, tenant_id, job_id, command, before)
    shown = await state.query(lambda db: jobs.shown_job(db, job_id, state.topology))
    if shown is None:
        raise not_shown()
    return shown


async def _route(
    state: AppState, tenant_id: str, job_id: str, command: Reroute, before: Job | None
) -> None:
    after = before.incarnation if before else 0

    def newer(connection: sqlite3.Connection) -> bool | None:
        found = jobs.job(connection, job_id)
        return None if found is None or found.incarnation <= after else True

    await run_command(state, tenant_id, job_id, command, ("jobs", (job_id,)), newer)
