"""Calls on signed bodies that did not fit their source: show one, release one."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from streams.access.permissions import OPERATE, PAYLOAD_READ, READ
from streams.api.quarantine import preview as previewing
from streams.api.quarantine import release as releasing
from streams.api.quarantine.preview_request import PreviewRequest
from streams.api.quarantine.release_request import ReleaseRequest
from streams.api.quarantine.table import quarantined_json
from streams.api.serving.attachment import attachment
from streams.api.serving.call import ROW, Calls, state_of
from streams.api.serving.request_body import read_body
from streams.serde.sizes import MAX_BODY_BYTES

calls = Calls()


@calls.get("/v1/quarantine/{id}", of=ROW, needs=READ)
async def get_quarantined(request: web.Request) -> web.Response:
    """Show why a body is in quarantine and what became of it, but not the body itself."""
    record = await releasing.known_body(state_of(request), request.match_info["id"])
    return web.json_response(quarantined_json(record))


@calls.get(
    "/v1/quarantine/{id}/payload", of=ROW, needs=PAYLOAD_READ, verb="quarantine.read_payload"
)
async def get_payload(request: web.Request) -> web.StreamResponse:
    """Answer the raw body, exactly as its vendor signed it, for whoever fixes the mapping."""
    read = partial(releasing.payload, state_of(request), request.match_info["id"])
    return await attachment(request, MAX_BODY_BYTES, read)


@calls.post(
    "/v1/quarantine/{id}/release",
    of=ROW,
    needs=OPERATE,
    verb="quarantine.release",
    body=ReleaseRequest,
)
async def release(request: web.Request) -> web.Response:
    """Normalize a body again under its source's present mapping, and let it in as an event."""
    state, id_ = state_of(request), request.match_info["id"]
    wanted = await read_body(request, ReleaseRequest)
    record = await releasing.release(state, id_, wanted.note)
    return web.json_response(quarantined_json(record), status=202)


@calls.post(
    "/v1/quarantine/{id}/preview",
    of=ROW,
    needs=PAYLOAD_READ,
    verb="quarantine.preview",
    body=PreviewRequest,
)
async def preview(request: web.Request) -> web.Response:
    """Show the event that a body would be under another mapping; nothing is released."""
    wanted = await read_body(request, PreviewRequest)
    shown = await previewing.preview(state_of(request), request.match_info["id"], wanted)
    return web.json_response(shown)
