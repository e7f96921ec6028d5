"""What applications announce of their job types."""

from __future__ import annotations

from aiohttp import web

from streams.api.job_types import table as job_types
from streams.api.job_types.table import job_type_json
from streams.api.refusal import unknown
from streams.api.serving.state import STATE

routes = web.RouteTableDef()


@routes.get("/v1/job-types")
async def list_job_types(request: web.Request) -> web.Response:
    """List the job types that workers have announced, by name, with their JSON schemas."""
    state = request.app[STATE]
    found = await state.query(job_types.job_types)
    return web.json_response({"job_types": [job_type_json(row, state.topology) for row in found]})


@routes.get("/v1/job-types/{type}")
async def get_job_type(request: web.Request) -> web.Response:
    """Show one job type as it was announced last."""
    state, name = request.app[STATE], request.match_info["type"]
    found = await state.query(lambda db: job_types.job_type(db, name))
    if found is None:
        hint = "no worker has announced it: compare the name with GET /v1/job-types"
        raise unknown("job type", name, hint)
    return web.json_response(job_type_json(found, state.topology))
