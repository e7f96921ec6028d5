"""Recoveries: the deliveries of an endpoint that were parked or dead are driven anew."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE
from streams.api.deliveries import recovery
from streams.api.deliveries.recover_request import RecoverRequest
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.request_body import idempotency_key, read_body

calls = Calls()

_PATH = "/v1/tenants/{tenant_id}/endpoints/{endpoint_id}/recover"


@calls.post(_PATH, of=TENANT_IN_PATH, needs=OPERATE, verb="endpoint.recover", body=RecoverRequest)
async def recover(request: web.Request) -> web.Response:
    """Count what a recovery would drive anew, or begin it; the same key begins it once."""
    state, path = state_of(request), request.match_info
    wanted, key = await read_body(request, RecoverRequest), idempotency_key(request)
    selected = wanted.selection(path["tenant_id"], path["endpoint_id"])
    if wanted.dry_run:
        return web.json_response(await recovery.preview(state, selected))
    return web.json_response(await recovery.recover(state, selected, key), status=202)
