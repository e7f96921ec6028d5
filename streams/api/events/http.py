"""Calls on one event: what became of it, its body, and its job if no route matched it at first."""

from __future__ import annotations

import sqlite3
from typing import Annotated

from aiohttp import web
from pydantic import Field

from streams.api.command_results import run_command
from streams.api.events import table as events
from streams.api.events.story import shown_event
from streams.api.fields import Body, noted
from streams.api.jobs import table as jobs
from streams.api.operator_state import SUBMITTED_BY, AppState, not_shown
from streams.api.payloads import open_body
from streams.api.refusal import Refusal, unknown
from streams.api.rows.json_values import Json
from streams.api.serving.attachment import attachment
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import enabled_tenant
from streams.serde import ids
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, Reroute

routes = web.RouteTableDef()

Text = Annotated[str, Field(min_length=1, max_length=512)]


class RouteRequest(Body):
    """Body of `POST /v1/tenants/{t}/events:route`: the event's source and dedup key."""

    source: Text
    dedup_key: Text
    note: Annotated[str, noted("must say why it gets its job now")]


@routes.post("/v1/tenants/{tenant_id}/events:route")
async def route_event(request: web.Request) -> web.Response:
    """Make an event's job, unless it has one; answer the job."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    wanted = await read_body(request, RouteRequest)
    await enabled_tenant(state, tenant_id)
    job_id = ids.event_job_id(tenant_id, wanted.source, wanted.dedup_key)
    await state.read_barrier(("jobs", state.home(tenant_id)))
    before = await state.query(lambda db: jobs.job(db, job_id))
    if before is None or before.status in TERMINAL:
        await _route(state, tenant_id, job_id, wanted, before)
    return web.json_response(await _shown(state, job_id), status=202)


async def _route(
    state: AppState, tenant_id: str, job_id: str, wanted: RouteRequest, before: Job | None
) -> None:
    after = before.incarnation if before else 0
    fingerprint = ids.fingerprint(tenant_id, wanted.source, wanted.dedup_key)
    command = Reroute(fingerprint, wanted.note, SUBMITTED_BY)

    def newer(connection: sqlite3.Connection) -> bool | None:
        found = jobs.job(connection, job_id)
        return None if found is None or found.incarnation <= after else True

    await run_command(state, tenant_id, job_id, command, ("jobs", (job_id,)), newer)


async def _shown(state: AppState, job_id: str) -> Json:
    shown = await state.query(lambda db: jobs.shown_job(db, job_id, state.topology))
    if shown is None:
        raise not_shown()
    return shown


@routes.get("/v1/events/{event_id}")
async def get_event(request: web.Request) -> web.Response:
    """Show an event with its duplicates, job, replays, dead letters, quarantine, deliveries."""
    state, event_id = request.app[STATE], request.match_info["event_id"]
    shown = await state.query(lambda db: shown_event(db, event_id, state.topology))
    if shown is None:
        raise _unknown(event_id)
    return web.json_response(shown)


@routes.get("/v1/events/{event_id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """Answer the raw body, exactly as its vendor signed it."""
    state, event_id = request.app[STATE], request.match_info["event_id"]
    found = await state.query(lambda db: events.event(db, event_id))
    if found is None:
        raise _unknown(event_id)
    return attachment(await open_body(state, found.tenant_id, event_id, found.payload_ref))


def _unknown(event_id: str) -> Refusal:
    return unknown(
        "event",
        event_id,
        "it is a duplicate, waits in the quarantine, is not shown yet, or is older than the list "
        "(TIDEGATE_EVENTS_LISTED_HOURS, 24 by default): GET /v1/events lists events, "
        "GET /v1/duplicates what came again, GET /v1/quarantine the bodies that wait, "
        "and the topic `events` keeps older events",
    )
