"""Calls on dead letters: show one, replay a job as a new one, send records in again.

One about which nothing is left to do is discarded, and one is left to a person who does it by hand.
"""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE, READ
from streams.api.dead_letters import edit_preview, letter
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.page_replay import replay_selected
from streams.api.dead_letters.replay_request import (
    BulkReplayRequest,
    DiscardRequest,
    DoneRequest,
    EditRequest,
    ManualRequest,
    ReplayRequest,
)
from streams.api.serving.call import LISTED, ROW, Calls, state_of
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.listing import cursor_in, page_query
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.get("/v1/dlq/{id}", of=ROW, needs=READ)
async def get_dead_letter(request: web.Request) -> web.Response:
    """Show a dead letter with its job, or with the bytes of its record."""
    return web.json_response(await letter.show(state_of(request), request.match_info["id"]))


@calls.get("/v1/dlq:count", of=LISTED, needs=READ)
async def count(request: web.Request) -> web.Response:
    """Count dead letters by error, under the filters of their list."""
    query = page_query(request, dead_letters.LISTING.filters)
    found = await state_of(request).query(lambda db: dead_letters.errors(db, query))
    return web.json_response(found)


@calls.post(
    "/v1/dlq/{id}/replay", of=ROW, needs=OPERATE, verb="dead_letter.replay", body=ReplayRequest
)
async def replay(request: web.Request) -> web.Response:
    """Run a dead job, or one in review, again as a new job; send a dead record in again."""
    state, id_ = state_of(request), request.match_info["id"]
    wanted, key = await read_body(request, ReplayRequest), idempotency_key(request)
    return web.json_response(await letter.replay(state, id_, wanted, key), status=202)


@calls.post(
    "/v1/dlq/{id}/preview", of=ROW, needs=OPERATE, verb="dead_letter.preview", body=EditRequest
)
async def preview(request: web.Request) -> web.Response:
    """Show a job's input before and after an edit, and whether it fits; nothing is replayed."""
    wanted = await read_body(request, EditRequest)
    shown = await edit_preview.preview(state_of(request), request.match_info["id"], wanted)
    return web.json_response(shown)


@calls.post(
    "/v1/dlq:replay",
    of=LISTED,
    needs=OPERATE,
    verb="dead_letter.replay_all",
    body=BulkReplayRequest,
)
async def replay_in_bulk(request: web.Request) -> web.Response:
    """Replay dead jobs, oldest first, and records, in the order of their offsets, a page a call."""
    state, wanted = state_of(request), await read_body(request, BulkReplayRequest)
    return web.json_response(await replay_selected(state, wanted, cursor_in(wanted.cursor)))


@calls.post(
    "/v1/dlq/{id}/discard", of=ROW, needs=OPERATE, verb="dead_letter.discard", body=DiscardRequest
)
async def discard(request: web.Request) -> web.Response:
    """Mark a dead letter about which nothing is left to do: lists leave it out from now on."""
    state, id_ = state_of(request), request.match_info["id"]
    wanted = await read_body(request, DiscardRequest)
    return web.json_response(await letter.discard(state, id_, wanted.note))


@calls.post(
    "/v1/dlq/{id}/manual", of=ROW, needs=OPERATE, verb="dead_letter.manual", body=ManualRequest
)
async def make_manual(request: web.Request) -> web.Response:
    """Make a dead letter manual work, which a person does: only lists of such work have it then."""
    state, id_ = state_of(request), request.match_info["id"]
    wanted = await read_body(request, ManualRequest)
    return web.json_response(await letter.manual(state, id_, wanted.note, wanted.assignee))


@calls.post("/v1/dlq/{id}/done", of=ROW, needs=OPERATE, verb="dead_letter.done", body=DoneRequest)
async def finish(request: web.Request) -> web.Response:
    """Mark manual work as done: lists leave its dead letter out from now on."""
    state, id_ = state_of(request), request.match_info["id"]
    wanted = await read_body(request, DoneRequest)
    return web.json_response(await letter.finish(state, id_, wanted.note))
