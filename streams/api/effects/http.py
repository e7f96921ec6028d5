"""Settlements: a person records the outcome of an effect that no run could record."""

from __future__ import annotations

from aiohttp import web

from streams.api.effects import settlement
from streams.api.effects.settle_request import SettleRequest
from streams.api.operator_state import SUBMITTED_BY
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE

routes = web.RouteTableDef()


@routes.post("/v1/jobs/{job_id}/effects/{action:(?s:.+)}/settle")
async def settle(request: web.Request) -> web.Response:
    """Settle one effect of a job in review, which continues once all are settled, or of one that
    has ended, for its replay."""
    state, path = request.app[STATE], request.match_info
    wanted = await read_body(request, SettleRequest)
    shown = await settlement.settle(state, path["job_id"], path["action"], wanted, SUBMITTED_BY)
    return web.json_response(shown, status=202)


@routes.post("/v1/tenants/{tenant_id}/effects/{action:(?s:.+)}/settle")
async def settle_shared(request: web.Request) -> web.Response:
    """Settle an effect that counts beyond its job; the jobs that wait for it go on."""
    state, path = request.app[STATE], request.match_info
    wanted = await read_body(request, SettleRequest)
    shown = await settlement.settle_shared(
        state, path["tenant_id"], path["action"], wanted, SUBMITTED_BY
    )
    return web.json_response(shown, status=202)
