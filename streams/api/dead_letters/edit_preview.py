"""Shows what a replay with another input would begin with, before somebody asks for it."""

from __future__ import annotations

from streams import user_json
from streams.api.dead_letters.job_replay import known_job
from streams.api.dead_letters.replay_request import EditRequest
from streams.api.fields import stored_json
from streams.api.job_types.input_check import misfits_of
from streams.api.jobs import table as jobs
from streams.api.jobs.job_request import MAX_INPUT_BYTES
from streams.api.operator_state import AppState
from streams.api.rows.json_values import Json


async def preview(state: AppState, id_: str, wanted: EditRequest) -> Json:
    """Return a job's input before and after an edit, and what its type finds wrong with it.

    Raises:
        Refusal: 404 and 409, there is no such job; 413, the input is too large.
    """
    job = await known_job(state, id_)
    text = stored_json(wanted.input, "input", MAX_INPUT_BYTES)
    type_ = wanted.type or job.type
    faults = await misfits_of(state, type_, text)
    before = await state.query(lambda db: jobs.shown_input(db, job))
    after = user_json.read(text)
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "type": type_,
        "before": before,
        "after": after,
        "changed": before != after,
        "has_schema": faults is not None,
        "fits": not faults,
        "errors": [{"field": field, "message": message} for field, message in faults or ()],
    }
