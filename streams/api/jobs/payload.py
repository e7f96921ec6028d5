"""The body of the event that gave a job."""

from __future__ import annotations

from streams.api.jobs.known import known_job
from streams.api.operator_state import AppState
from streams.api.payloads import open_body
from streams.api.refusal import Refusal


async def payload(state: AppState, job_id: str) -> bytes:
    """Return the raw body, exactly as its vendor signed it.

    Raises:
        Refusal: 404, there is no such job, or it has no body; otherwise as of `open_body`.
    """
    job = await known_job(state, job_id)
    ref, event = job.payload_ref, job.event
    if ref is None or event is None:
        raise Refusal(
            404,
            "payload-none",
            f"job {job_id} has no payload: it was submitted directly, with an input and no body",
        )
    body = await open_body(state, job.tenant_id, event.event_id, ref)
    await state.audited(state.entry(job_id, job.tenant_id))
    return body
