"""Calls on jobs: submit, show, list, cancel. Changes are commands to the dispatcher."""

from __future__ import annotations

import sqlite3
from typing import Annotated

from aiohttp import web
from pydantic import AfterValidator

from streams.api.command_results import outstanding, run_command
from streams.api.endpoints.destinations import ready_for_callbacks
from streams.api.fields import Body, bounded
from streams.api.job_types.known import doubt_about
from streams.api.jobs import table as jobs
from streams.api.jobs.job_request import JobRequest
from streams.api.jobs.submission import Submission, submitted
from streams.api.operator_state import SUBMITTED_BY, AppState
from streams.api.refusal import Refusal, unknown
from streams.api.rows.json_values import Json
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.payloads import attachment, open_body
from streams.api.serving.request_body import idempotency_key, read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import enabled_tenant
from streams.new_jobs import FIRST, from_submission
from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.job_states import TERMINAL
from streams.serde.records import Cancel, Job
from streams.tracing.spans import carried_on

routes = web.RouteTableDef()


class CancelRequest(Body):
    """Body of `POST /v1/jobs/{id}/cancel`."""

    reason: Annotated[str, AfterValidator(bounded)] = ""


@routes.post("/v1/tenants/{tenant_id}/jobs")
async def submit_job(request: web.Request) -> web.Response:
    """Submit a job; a repetition with the same key and body answers the same job.

    `warning` says that nothing is known to handle its type, or is null.
    """
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    wanted = await read_body(request, JobRequest)
    key = idempotency_key(request) or wanted.dedup_key
    await enabled_tenant(state, tenant_id)
    now = wall_ms()
    if wanted.callback_url is not None:
        await ready_for_callbacks(state, tenant_id, wanted.callback_url)
    submit = wanted.submission(state.topology, traceparent(request), now)
    asked = Submission(tenant_id, ids.submitted_job_id(tenant_id, key), submit, key is not None)
    shown = await submitted(state, asked, now)
    if shown is None:
        pending = from_submission(
            asked.job_id, tenant_id, submit, state.topology, place=FIRST, at=now, now=now
        )
        shown = jobs.unread_job(pending)
    doubt = await state.query(lambda db: doubt_about(db, state.topology, submit.type))
    return web.json_response({**shown, "warning": doubt}, status=202)


@routes.get("/v1/jobs/{job_id}")
async def get_job(request: web.Request) -> web.Response:
    """Show a job with its effects, steps and progress."""
    return web.json_response(await shown_job(request.app[STATE], request.match_info["job_id"]))


@routes.get("/v1/jobs/{job_id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """Answer the raw body of the event that gave the job, exactly as its vendor signed it."""
    state, job_id = request.app[STATE], request.match_info["job_id"]
    job = await known_job(state, job_id)
    ref, event = job.payload_ref, job.event
    if ref is None or event is None:
        raise Refusal(
            404,
            "payload-none",
            f"job {job_id} has no payload: it was submitted directly, with an input and no body",
        )
    return attachment(await open_body(state, job.tenant_id, event.event_id, ref))


@routes.get("/v1/jobs")
async def list_jobs(request: web.Request) -> web.Response:
    """List jobs newest first, by tenant, status and type."""
    query = page_query(request, jobs.FILTERS)
    state = request.app[STATE]
    page = await state.query(lambda db: jobs.jobs_page(db, query, state.topology))
    return list_answer("jobs", page)


@routes.post("/v1/jobs/{job_id}/cancel")
async def cancel_job(request: web.Request) -> web.Response:
    """Cancel a job: at once unless it runs, else as soon as its handler stops."""
    state, job_id = request.app[STATE], request.match_info["job_id"]
    wanted = await read_body(request, CancelRequest)
    job = await live_job(state, job_id)
    cancel = Cancel(wanted.reason, SUBMITTED_BY, job.incarnation)

    def heard(connection: sqlite3.Connection) -> Job | None:
        found = jobs.job(connection, job_id)
        if found is None or not found.is_same_life(job.incarnation):
            return job
        return found if found.cancel_requested or found.status in TERMINAL else None

    found = await run_command(state, job.tenant_id, job_id, cancel, ("jobs", (job_id,)), heard)
    return await commanded(state, job_id, answered=found is not None)


async def commanded(state: AppState, job_id: str, *, answered: bool) -> web.Response:
    """Answer 202 with the job that a command changes.

    `answered` is whether the dispatcher carried the command out within `SHOWN_WITHIN_SECONDS`. The
    command is durable either way.
    """
    shown = await shown_job(state, job_id)
    return web.json_response({**shown, "answered": answered}, status=202)


async def known_job(state: AppState, job_id: str) -> Job:
    """Return the newest state of a job; refuse with 404 if it is unknown."""
    job = await state.query(lambda db: jobs.job(db, job_id))
    if job is None:
        raise _unknown(job_id)
    return job


async def live_job(state: AppState, job_id: str) -> Job:
    """Return the newest state of a job; refuse with 404 if it is unknown, 409 if it has ended."""
    job = await known_job(state, job_id)
    if job.status in TERMINAL:
        raise Refusal(
            409,
            "job-ended",
            f"job {job_id} has already ended: {job.status}; "
            "only a job that has not ended is cancelled, moved or settled",
        )
    return job


def traceparent(request: web.Request) -> str:
    """Return the span of this call, else the caller's W3C trace context or a new root."""
    return carried_on(request.headers.get("traceparent"))


async def shown_job(state: AppState, job_id: str) -> Json:
    """Return a job as the API shows it.

    Raises:
        Refusal: 404; 503, this process accepted it, but no dispatcher has read the command yet.
    """
    shown = await state.query(lambda db: jobs.shown_job(db, job_id, state.topology))
    if shown is None:
        raise await not_there(state, job_id)
    return shown


async def not_there(state: AppState, job_id: str) -> Refusal:
    """Return the refusal of a job that has no row: 404, or 503 if this process accepted it."""
    if await outstanding(state, ("job", job_id)) is None:
        return _unknown(job_id)
    told = f"job {job_id} is accepted, and no dispatcher has taken it yet: ask again"
    return Refusal(503, "not-shown", told)


def _unknown(job_id: str) -> Refusal:
    return unknown(
        "job",
        job_id,
        "it was never accepted, is not shown yet, or has been purged since it "
        "ended: compare the id with GET /v1/jobs",
    )
