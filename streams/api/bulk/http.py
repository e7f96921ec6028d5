"""Bulk acts: plan one, begin it, list and show them, their items; pause, resume, cancel."""

from __future__ import annotations

from aiohttp import web

from streams.api.bulk import course
from streams.api.bulk.bulk_request import BulkRequest, CancelBulkRequest
from streams.api.fields import Body
from streams.api.operator_state import SUBMITTED_BY
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import idempotency_key, read_body
from streams.api.serving.state import STATE
from streams.serde.bulk_records import ASKED, FAILED, ITEM_DONE, WAITING

routes = web.RouteTableDef()

_PATH = "/v1/bulk/{bulk_id}"
_FILTERS = {"outcome": (WAITING, ITEM_DONE, ASKED, FAILED)}


@routes.post("/v1/bulk")
async def begin(request: web.Request) -> web.Response:
    """Begin a bulk act, or with `dry_run` only plan it; the same key and body begin it once."""
    state, key = request.app[STATE], idempotency_key(request)
    wanted = await read_body(request, BulkRequest)
    shown = await course.begin(state, wanted, key, SUBMITTED_BY)
    return web.json_response(shown, status=202)


@routes.get(_PATH)
async def show(request: web.Request) -> web.Response:
    """Show a bulk act: what was asked, by whom and why, how far it is, and who took part."""
    return web.json_response(await course.show(request.app[STATE], request.match_info["bulk_id"]))


@routes.get(_PATH + "/items")
async def items(request: web.Request) -> web.Response:
    """List the items of an act in their order, each with what became of it."""
    query, bulk_id = page_query(request, _FILTERS), request.match_info["bulk_id"]
    outcome = request.query.get("outcome")
    page = await course.items(request.app[STATE], bulk_id, outcome, query.limit, query.cursor)
    return list_answer("items", page)


@routes.post(_PATH + "/pause")
async def pause(request: web.Request) -> web.Response:
    """Let an act stand still after the items that it deals with now."""
    await read_body(request, Body)
    state, bulk_id = request.app[STATE], request.match_info["bulk_id"]
    return web.json_response(await course.pause(state, bulk_id, SUBMITTED_BY), status=202)


@routes.post(_PATH + "/resume")
async def resume(request: web.Request) -> web.Response:
    """Let an act go on, also one that was stopped for its failures."""
    await read_body(request, Body)
    state, bulk_id = request.app[STATE], request.match_info["bulk_id"]
    return web.json_response(await course.resume(state, bulk_id, SUBMITTED_BY), status=202)


@routes.post(_PATH + "/cancel")
async def cancel(request: web.Request) -> web.Response:
    """End an act for good; what it has done stays."""
    state, bulk_id = request.app[STATE], request.match_info["bulk_id"]
    wanted = await read_body(request, CancelBulkRequest)
    shown = await course.cancel(state, bulk_id, wanted.note, SUBMITTED_BY)
    return web.json_response(shown, status=202)
