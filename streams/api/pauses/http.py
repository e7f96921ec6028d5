"""Calls that pause and resume tenants, types, pools, sources, tools and workers."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE
from streams.api.pauses import pausing
from streams.api.pauses.pause_request import PauseRequest, ResumeRequest
from streams.api.serving.call import NAMED, Calls, state_of
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.post("/v1/limits/pause", of=NAMED, needs=OPERATE, verb="limit.pause", body=PauseRequest)
async def pause(request: web.Request) -> web.Response:
    """Start nothing more of a tenant, type, pool, source or tool; a second pause has a new reason.

    A paused worker, named without its boot, is drained: it is given no more leases. `warning` says
    that no job of the type is known, or that none runs at the worker, or is null.
    """
    wanted = await read_body(request, PauseRequest)
    return web.json_response(await pausing.pause(state_of(request), wanted))


@calls.post("/v1/limits/resume", of=NAMED, needs=OPERATE, verb="limit.resume", body=ResumeRequest)
async def resume(request: web.Request) -> web.Response:
    """Let what was paused start again, also if the topology no longer declares it."""
    wanted = await read_body(request, ResumeRequest)
    return web.json_response(await pausing.resume(state_of(request), wanted))
