"""Calls on events: what became of one, its body, a job if no route matched; and many at once."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from streams.access.permissions import OPERATE, PAYLOAD_READ, READ
from streams.api.events.batch import let_in
from streams.api.events.batch_request import BatchRequest
from streams.api.events.known import payload, story
from streams.api.events.reroute import reroute
from streams.api.events.route_request import RouteRequest
from streams.api.serving.attachment import attachment
from streams.api.serving.call import ROW, TENANT_IN_PATH, Calls, state_of
from streams.api.serving.request_body import read_body, traceparent
from streams.serde.sizes import MAX_BODY_BYTES

calls = Calls()

MAX_BATCH_BYTES = 8 * 1024 * 1024


@calls.post(
    "/v1/tenants/{tenant_id}/events:route",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="event.route",
    is_keyed=True,
    body=RouteRequest,
)
async def route_event(request: web.Request) -> web.Response:
    """Make an event's job, unless it has one; answer the job."""
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    wanted = await read_body(request, RouteRequest)
    return web.json_response(await reroute(state, tenant_id, wanted), status=202)


@calls.get("/v1/events/{event_id}", of=ROW, needs=READ)
async def get_event(request: web.Request) -> web.Response:
    """Show an event with its duplicates, job, replays, dead letters, quarantine, deliveries."""
    return web.json_response(await story(state_of(request), request.match_info["event_id"]))


@calls.get("/v1/events/{event_id}/payload", of=ROW, needs=PAYLOAD_READ, verb="event.read_payload")
async def get_payload(request: web.Request) -> web.StreamResponse:
    """Answer the raw body, exactly as its vendor signed it."""
    read = partial(payload, state_of(request), request.match_info["event_id"])
    return await attachment(request, MAX_BODY_BYTES, read)


@calls.post(
    "/v1/tenants/{tenant_id}/events:batch",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="event.submit",
    body=BatchRequest,
)
async def submit_events(request: web.Request) -> web.Response:
    """Take up to 500 events; answer `accepted`, `duplicate` or `refused` for each, in order."""
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    wanted = await read_body(request.clone(client_max_size=MAX_BATCH_BYTES), BatchRequest)
    return web.json_response(await let_in(state, tenant_id, wanted.events, traceparent(request)))
