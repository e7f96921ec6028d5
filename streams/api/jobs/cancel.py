"""Cancels a job."""

from __future__ import annotations

from streams.api.decisions import decided, first_decision
from streams.api.jobs.known import commanded, known_job, require_live
from streams.api.operator_state import AppState
from streams.api.rows.json_values import Json
from streams.serde.records import Cancel


async def cancel(state: AppState, job_id: str, reason: str) -> Json:
    """Cancel a job: at once unless it runs, else as soon as its handler stops.

    Raises:
        Refusal: 404; 409, it has ended, or the dispatcher refuses.
    """
    job = await known_job(state, job_id)
    decision = await first_decision(state, job.tenant_id, "jobs")
    if decision is None:
        require_live(job)
        command = Cancel(reason, state.principal.id, job.incarnation)
        decision = await decided(state, job.tenant_id, job_id, command, "jobs")
    return await commanded(state, job_id, decision)
