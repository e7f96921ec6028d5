"""How many jobs wait, where that is near a cap."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import READ
from streams.api.backlog.admission import open_backlog
from streams.api.backlog.table import depth_json, is_seen
from streams.api.serving.call import SHARED, Calls, state_of

calls = Calls()


@calls.get("/v1/backlog", of=SHARED, needs=READ)
async def list_backlog(request: web.Request) -> web.Response:
    """List the depths that are near a cap of `max_queued`, the fullest first."""
    state = state_of(request)
    known = [each for each in (await open_backlog(state)).known() if is_seen(state.principal, each)]
    return web.json_response({"backlog": [depth_json(each) for each in known]})
