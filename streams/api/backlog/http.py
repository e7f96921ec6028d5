"""How many jobs wait, where that is near a cap."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import READ
from streams.api.backlog.admission import open_backlog
from streams.api.backlog.table import depth_json
from streams.api.operator_state import AppState
from streams.api.serving.call import SHARED, Calls, state_of
from streams.limits.backlog import Depth

calls = Calls()


@calls.get("/v1/backlog", of=SHARED, needs=READ)
async def list_backlog(request: web.Request) -> web.Response:
    """List the depths that are near a cap of `max_queued`, the fullest first."""
    state = state_of(request)
    known = [each for each in (await open_backlog(state)).known() if _is_seen(state, each)]
    return web.json_response({"backlog": [depth_json(each) for each in known]})


def _is_seen(state: AppState, depth: Depth) -> bool:
    """Return whether a depth is of a tenant of the caller's, or the caller has all of them."""
    principal, line = state.principal, depth.line
    return principal.has_every_tenant or (line.scope == "tenant" and principal.covers(line.value))
