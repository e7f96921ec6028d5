"""Calls on one delivery: show it with its attempts, drive it anew."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE, READ
from streams.api.deliveries.retry import retry, show
from streams.api.fields import Body
from streams.api.serving.call import ROW, Calls, state_of
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.get("/v1/deliveries/{delivery_id}", of=ROW, needs=READ)
async def get_delivery(request: web.Request) -> web.Response:
    """Show a delivery with all its attempts that are kept."""
    return web.json_response(await show(state_of(request), request.match_info["delivery_id"]))


@calls.post("/v1/deliveries/{delivery_id}/retry", of=ROW, needs=OPERATE, verb="delivery.retry")
async def retry_delivery(request: web.Request) -> web.Response:
    """Make a delivery due now, whatever its status; each call drives it anew."""
    state, delivery_id = state_of(request), request.match_info["delivery_id"]
    await read_body(request, Body)
    return web.json_response(await retry(state, delivery_id), status=202)
