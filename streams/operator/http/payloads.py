"""The call that yields a job's raw body."""

from __future__ import annotations

from aiohttp import web

from streams.operator.http.app_state import PARTS
from streams.operator.http.bodies import attachment, open_body
from streams.operator.http.jobs import known_job
from streams.operator.http.refusal import Refusal

routes = web.RouteTableDef()


@routes.get("/v1/jobs/{job_id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """The raw body of the event that gave the job, exactly as its vendor signed it."""
    state, job_id = request.app[PARTS], request.match_info["job_id"]
    job = await known_job(state, job_id)
    ref, event = job.payload_ref, job.event
    if ref is None or event is None:
        raise Refusal(404, "payload-none", f"job {job_id} has no payload: it was submitted "
                      "directly")  # fmt: skip
    return attachment(await open_body(state, job.tenant_id, event.event_id, ref))
