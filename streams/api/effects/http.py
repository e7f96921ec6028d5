"""Settlements: a person records the outcome of an effect that no run could record."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import SETTLE
from streams.api.effects import settlement
from streams.api.effects.settle_request import SettleRequest
from streams.api.serving.call import ROW, TENANT_IN_PATH, Calls, state_of
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.post(
    "/v1/jobs/{job_id}/effects/{action:(?s:.+)}/settle",
    of=ROW,
    needs=SETTLE,
    verb="effect.settle",
    is_keyed=True,
    body=SettleRequest,
)
async def settle(request: web.Request) -> web.Response:
    """Settle one effect of a job in review, which continues once all are settled, or of one that
    has ended, for its replay."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request, SettleRequest)
    shown = await settlement.settle(state, path["job_id"], path["action"], wanted)
    return web.json_response(shown, status=202)


@calls.post(
    "/v1/tenants/{tenant_id}/effects/{action:(?s:.+)}/settle",
    of=TENANT_IN_PATH,
    needs=SETTLE,
    verb="effect.settle",
    is_keyed=True,
    body=SettleRequest,
)
async def settle_shared(request: web.Request) -> web.Response:
    """Settle an effect that counts beyond its job; the jobs that wait for it go on."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request, SettleRequest)
    shown = await settlement.settle_shared(state, path["tenant_id"], path["action"], wanted)
    return web.json_response(shown, status=202)
