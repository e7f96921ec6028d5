"""Bulk acts: plan one, begin it, show it and its items; pause, resume, cancel."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE, READ
from streams.api.bulk import course
from streams.api.bulk.bulk_request import BulkRequest, CancelBulkRequest
from streams.api.fields import Body
from streams.api.serving.call import NAMED, ROW, Calls, state_of
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import read_body
from streams.serde.bulk_records import ASKED, FAILED, ITEM_DONE, WAITING

calls = Calls()

_PATH = "/v1/bulk/{bulk_id}"
_FILTERS = {"outcome": (WAITING, ITEM_DONE, ASKED, FAILED)}


@calls.post("/v1/bulk", of=NAMED, needs=OPERATE, verb="bulk.begin", body=BulkRequest)
async def begin(request: web.Request) -> web.Response:
    """Begin a bulk act, or with `dry_run` only plan it; the same key and body begin it once."""
    state, key = state_of(request), idempotency_key(request)
    wanted = await read_body(request, BulkRequest)
    return web.json_response(await course.begin(state, wanted, key), status=202)


@calls.get(_PATH, of=ROW, needs=READ)
async def show(request: web.Request) -> web.Response:
    """Show a bulk act: what was asked, by whom and why, how far it is, and who took part."""
    return web.json_response(await course.show(state_of(request), request.match_info["bulk_id"]))


@calls.get(_PATH + "/items", of=ROW, needs=READ)
async def items(request: web.Request) -> web.Response:
    """List the items of an act in their order, each with what became of it."""
    query, bulk_id = page_query(request, _FILTERS), request.match_info["bulk_id"]
    outcome = request.query.get("outcome")
    page = await course.items(state_of(request), bulk_id, outcome, query.limit, query.cursor)
    return list_answer("items", page)


@calls.post(_PATH + "/pause", of=ROW, needs=OPERATE, verb="bulk.pause", body=Body)
async def pause(request: web.Request) -> web.Response:
    """Let an act stand still after the items that it deals with now."""
    await read_body(request, Body)
    shown = await course.pause(state_of(request), request.match_info["bulk_id"])
    return web.json_response(shown, status=202)


@calls.post(_PATH + "/resume", of=ROW, needs=OPERATE, verb="bulk.resume", body=Body)
async def resume(request: web.Request) -> web.Response:
    """Let an act go on, also one that was stopped for its failures."""
    await read_body(request, Body)
    shown = await course.resume(state_of(request), request.match_info["bulk_id"])
    return web.json_response(shown, status=202)


@calls.post(_PATH + "/cancel", of=ROW, needs=OPERATE, verb="bulk.cancel", body=CancelBulkRequest)
async def cancel(request: web.Request) -> web.Response:
    """End an act for good; what it has done stays."""
    state, bulk_id = state_of(request), request.match_info["bulk_id"]
    wanted = await read_body(request, CancelBulkRequest)
    return web.json_response(await course.cancel(state, bulk_id, wanted.note), status=202)
