"""Submits a job, with a warning if nothing is known to handle it."""

from __future__ import annotations

from streams.api.endpoints.destinations import ready_for_callbacks
from streams.api.job_types.known import doubt_about
from streams.api.jobs.job_request import JobRequest
from streams.api.jobs.submission import Submission, submitted
from streams.api.operator_state import AppState
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import enabled_tenant
from streams.process.wall_clock import wall_ms
from streams.serde import ids


async def submit(
    state: AppState, tenant_id: str, wanted: JobRequest, key: str | None, traceparent: str
) -> Json:
    """Return the job as it is shown; a repetition with the same key and body gives the same job.

    `warning` says that nothing is known to handle its type, or is null.

    Raises:
        Refusal: as of `submitted`; 403, 404 or 409, the tenant gets no jobs.
    """
    key = key or wanted.dedup_key
    await enabled_tenant(state, tenant_id)
    now = wall_ms()
    if wanted.callback_url is not None:
        await ready_for_callbacks(state, tenant_id, wanted.callback_url)
    command = wanted.submission(state.topology, traceparent, now, state.principal.id)
    asked = Submission(tenant_id, ids.submitted_job_id(tenant_id, key), command, key is not None)
    shown = await submitted(state, asked)
    doubt = await state.query(lambda db: doubt_about(db, state.topology, command.type))
    return {**shown, "warning": doubt}
