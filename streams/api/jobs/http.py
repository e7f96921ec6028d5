"""Calls on jobs: submit, show, cancel, move. Changes are commands to the dispatcher."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from streams.access.permissions import OPERATE, PAYLOAD_READ, READ
from streams.api.jobs.cancel import cancel
from streams.api.jobs.job_request import CancelRequest, JobRequest
from streams.api.jobs.known import shown_job
from streams.api.jobs.move_request import BulkMoveRequest, MoveRequest
from streams.api.jobs.moves import move, move_page
from streams.api.jobs.payload import payload
from streams.api.jobs.submit import submit
from streams.api.serving.attachment import attachment
from streams.api.serving.call import LISTED, ROW, TENANT_IN_PATH, Calls, state_of
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.listing import cursor_in
from streams.api.serving.request_body import read_body, traceparent
from streams.serde.sizes import MAX_BODY_BYTES

calls = Calls()


@calls.post(
    "/v1/tenants/{tenant_id}/jobs",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="job.submit",
    body=JobRequest,
)
async def submit_job(request: web.Request) -> web.Response:
    """Submit a job; a repetition with the same key and body answers the same job.

    `warning` says that nothing is known to handle its type, or is null.
    """
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    wanted = await read_body(request, JobRequest)
    key = idempotency_key(request)
    shown = await submit(state, tenant_id, wanted, key, traceparent(request))
    return web.json_response(shown, status=202)


@calls.get("/v1/jobs/{job_id}", of=ROW, needs=READ)
async def get_job(request: web.Request) -> web.Response:
    """Show a job with its effects, steps and progress."""
    return web.json_response(await shown_job(state_of(request), request.match_info["job_id"]))


@calls.get("/v1/jobs/{job_id}/payload", of=ROW, needs=PAYLOAD_READ, verb="job.read_payload")
async def get_payload(request: web.Request) -> web.StreamResponse:
    """Answer the raw body of the event that gave the job, exactly as its vendor signed it."""
    read = partial(payload, state_of(request), request.match_info["job_id"])
    return await attachment(request, MAX_BODY_BYTES, read)


@calls.post(
    "/v1/jobs/{job_id}/cancel",
    of=ROW,
    needs=OPERATE,
    verb="job.cancel",
    is_keyed=True,
    body=CancelRequest,
)
async def cancel_job(request: web.Request) -> web.Response:
    """Cancel a job: at once unless it runs, else as soon as its handler stops."""
    state, job_id = state_of(request), request.match_info["job_id"]
    wanted = await read_body(request, CancelRequest)
    shown = await cancel(state, job_id, wanted.reason)
    return web.json_response(shown, status=202)


@calls.post(
    "/v1/jobs/{job_id}/move",
    of=ROW,
    needs=OPERATE,
    verb="job.move",
    is_keyed=True,
    body=MoveRequest,
)
async def move_job(request: web.Request) -> web.Response:
    """Move a job to another pool; one that runs moves when it waits again."""
    state, job_id = state_of(request), request.match_info["job_id"]
    wanted = await read_body(request, MoveRequest)
    return web.json_response(await move(state, job_id, wanted), status=202)


@calls.post("/v1/jobs:move", of=LISTED, needs=OPERATE, verb="job.move_all", body=BulkMoveRequest)
async def move_jobs(request: web.Request) -> web.Response:
    """Move all waiting jobs of a type to another pool; answer once the commands are durable."""
    state, wanted = state_of(request), await read_body(request, BulkMoveRequest)
    cursor = cursor_in(wanted.cursor)
    return web.json_response(await move_page(state, wanted, cursor))
