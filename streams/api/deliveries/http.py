"""Calls on deliveries: show one with its attempts, drive it anew, recover those of an endpoint."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE, READ
from streams.api.deliveries import recovery
from streams.api.deliveries.recover_request import RecoverRequest
from streams.api.deliveries.retry import retry, show
from streams.api.fields import Body
from streams.api.serving.call import ROW, TENANT_IN_PATH, Calls, state_of
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.request_body import read_body

calls = Calls()

_PATH = "/v1/tenants/{tenant_id}/endpoints/{endpoint_id}/recover"


@calls.get("/v1/deliveries/{delivery_id}", of=ROW, needs=READ)
async def get_delivery(request: web.Request) -> web.Response:
    """Show a delivery with all its attempts that are kept."""
    return web.json_response(await show(state_of(request), request.match_info["delivery_id"]))


@calls.post(
    "/v1/deliveries/{delivery_id}/retry",
    of=ROW,
    needs=OPERATE,
    verb="delivery.retry",
    is_keyed=True,
)
async def retry_delivery(request: web.Request) -> web.Response:
    """Make a delivery due now, whatever its status; each call drives it anew."""
    state, delivery_id = state_of(request), request.match_info["delivery_id"]
    await read_body(request, Body)
    return web.json_response(await retry(state, delivery_id), status=202)


@calls.post(_PATH, of=TENANT_IN_PATH, needs=OPERATE, verb="endpoint.recover", body=RecoverRequest)
async def recover(request: web.Request) -> web.Response:
    """Count what a recovery would drive anew, or begin it; the same key begins it once."""
    state, path = state_of(request), request.match_info
    wanted, key = await read_body(request, RecoverRequest), idempotency_key(request)
    selected = wanted.selection(path["tenant_id"], path["endpoint_id"])
    if wanted.dry_run:
        return web.json_response(await recovery.preview(state, selected))
    return web.json_response(await recovery.recover(state, selected, key), status=202)
