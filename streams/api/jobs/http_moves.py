"""Calls that move waiting jobs to another pool, one or many."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE
from streams.api.jobs.move_request import BulkMoveRequest, MoveRequest
from streams.api.jobs.moves import move, move_page
from streams.api.serving.call import LISTED, ROW, Calls, state_of
from streams.api.serving.listing import cursor_in
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.post("/v1/jobs/{job_id}/move", of=ROW, needs=OPERATE, verb="job.move", body=MoveRequest)
async def move_job(request: web.Request) -> web.Response:
    """Move a job to another pool; one that runs moves when it waits again."""
    state, job_id = state_of(request), request.match_info["job_id"]
    wanted = await read_body(request, MoveRequest)
    return web.json_response(await move(state, job_id, wanted), status=202)


@calls.post("/v1/jobs:move", of=LISTED, needs=OPERATE, verb="job.move_all", body=BulkMoveRequest)
async def move_jobs(request: web.Request) -> web.Response:
    """Move all waiting jobs of a type to another pool; answer once the commands are durable."""
    state, wanted = state_of(request), await read_body(request, BulkMoveRequest)
    cursor = cursor_in(wanted.cursor)
    return web.json_response(await move_page(state, wanted, cursor))
