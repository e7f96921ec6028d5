"""Calls on one event: what became of it, its body, and its job if no route matched it at first."""

from __future__ import annotations

from aiohttp import web

from streams.api.events.known import payload, story
from streams.api.events.reroute import reroute
from streams.api.events.route_request import RouteRequest
from streams.api.operator_state import SUBMITTED_BY
from streams.api.serving.attachment import attachment
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE

routes = web.RouteTableDef()


@routes.post("/v1/tenants/{tenant_id}/events:route")
async def route_event(request: web.Request) -> web.Response:
    """Make an event's job, unless it has one; answer the job."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    wanted = await read_body(request, RouteRequest)
    return web.json_response(await reroute(state, tenant_id, wanted, SUBMITTED_BY), status=202)


@routes.get("/v1/events/{event_id}")
async def get_event(request: web.Request) -> web.Response:
    """Show an event with its duplicates, job, replays, dead letters, quarantine, deliveries."""
    return web.json_response(await story(request.app[STATE], request.match_info["event_id"]))


@routes.get("/v1/events/{event_id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """Answer the raw body, exactly as its vendor signed it."""
    return attachment(await payload(request.app[STATE], request.match_info["event_id"]))
