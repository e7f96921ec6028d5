"""What applications announce of their job types."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import READ
from streams.api.job_types import table as job_types
from streams.api.job_types.table import job_type_json
from streams.api.refusal import unknown
from streams.api.remedy import get
from streams.api.serving.call import SHARED, Calls, state_of

calls = Calls()


@calls.get("/v1/job-types", of=SHARED, needs=READ)
async def list_job_types(request: web.Request) -> web.Response:
    """List the job types that workers have announced, by name, with their JSON schemas."""
    state = state_of(request)
    found = await state.query(job_types.job_types)
    return web.json_response({"job_types": [job_type_json(row, state.topology) for row in found]})


@calls.get("/v1/job-types/{type}", of=SHARED, needs=READ)
async def get_job_type(request: web.Request) -> web.Response:
    """Show one job type as it was announced last."""
    state, name = state_of(request), request.match_info["type"]
    found = await state.query(lambda db: job_types.job_type(db, name))
    if found is None:
        all_ = get("job-types")
        hint = f"no worker has announced it: compare the name with {all_}"
        raise unknown("job type", name, hint, all_)
    return web.json_response(job_type_json(found, state.topology))
