"""How many jobs wait, where that is near a cap."""

from __future__ import annotations

from aiohttp import web

from streams.api.backlog.admission import open_backlog
from streams.api.backlog.table import depth_json
from streams.api.serving.state import STATE

routes = web.RouteTableDef()


@routes.get("/v1/backlog")
async def list_backlog(request: web.Request) -> web.Response:
    """List the depths that are near a cap of `max_queued`, the fullest first."""
    known = (await open_backlog(request.app[STATE])).known()
    return web.json_response({"backlog": [depth_json(each) for each in known]})
