"""Calls on signed bodies that did not fit their source: show one, release one."""

from __future__ import annotations

from aiohttp import web

from streams.api.operator_state import SUBMITTED_BY
from streams.api.quarantine import release as releasing
from streams.api.quarantine.release_request import ReleaseRequest
from streams.api.quarantine.table import quarantined_json
from streams.api.serving.attachment import attachment
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE

routes = web.RouteTableDef()


@routes.get("/v1/quarantine/{id}")
async def get_quarantined(request: web.Request) -> web.Response:
    """Show why a body is in quarantine and what became of it, but not the body itself."""
    record = await releasing.known_body(request.app[STATE], request.match_info["id"])
    return web.json_response(quarantined_json(record))


@routes.get("/v1/quarantine/{id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """Answer the raw body, exactly as its vendor signed it, for whoever fixes the mapping."""
    return attachment(await releasing.payload(request.app[STATE], request.match_info["id"]))


@routes.post("/v1/quarantine/{id}/release")
async def release(request: web.Request) -> web.Response:
    """Normalize a body again under its source's present mapping, and let it in as an event."""
    state, id_ = request.app[STATE], request.match_info["id"]
    wanted = await read_body(request, ReleaseRequest)
    record = await releasing.release(state, id_, wanted.note, SUBMITTED_BY)
    return web.json_response(quarantined_json(record), status=202)
