"""Cancels a job."""

from __future__ import annotations

import sqlite3

from streams.api.command_results import run_command
from streams.api.jobs import table as jobs
from streams.api.jobs.known import commanded, live_job
from streams.api.operator_state import AppState
from streams.api.rows.json_values import Json
from streams.serde.job_states import TERMINAL
from streams.serde.records import Cancel, Job


async def cancel(state: AppState, job_id: str, reason: str) -> Json:
    """Cancel a job: at once unless it runs, else as soon as its handler stops.

    Raises:
        Refusal: 404; 409, it has ended, or the dispatcher refuses.
    """
    job = await live_job(state, job_id)
    command = Cancel(reason, state.principal.id, job.incarnation)

    def heard(connection: sqlite3.Connection) -> Job | None:
        found = jobs.job(connection, job_id)
        if found is None or not found.is_same_life(job.incarnation):
            return job
        return found if found.cancel_requested or found.status in TERMINAL else None

    found = await run_command(state, job.tenant_id, job_id, command, ("jobs", (job_id,)), heard)
    return await commanded(state, job_id, answered=found is not None)
