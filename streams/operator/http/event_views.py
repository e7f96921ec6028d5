"""Calls that show one event: what became of it, and its body."""

from __future__ import annotations

from aiohttp import web

from streams.operator.http.app_state import STATE
from streams.operator.http.payloads import attachment, open_body
from streams.operator.http.refusal import Refusal, unknown
from streams.operator.resources import events
from streams.operator.resources.event_story import shown_event

routes = web.RouteTableDef()


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
