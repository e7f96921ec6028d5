"""The call that lists workers. To drain one is to pause it: see `streams/api/pauses/`."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import READ
from streams.api.serving.call import LISTED, Calls, state_of
from streams.api.workers.running import workers

calls = Calls()


@calls.get("/v1/workers", of=LISTED, needs=READ)
async def list_workers(request: web.Request) -> web.Response:
    """List the workers at which jobs run, with how many, and those that are drained.

    A worker is drained by a pause of the scope `worker`. Callers of some tenants are not shown it.
    """
    return web.json_response(await state_of(request).query(workers))
