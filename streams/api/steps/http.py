"""Decisions about the finished steps of a job whose code diverged from them."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import SETTLE
from streams.api.serving.call import ROW, Calls, state_of
from streams.api.serving.request_body import read_body
from streams.api.steps import settlement
from streams.api.steps.steps_request import StepsRequest

calls = Calls()


@calls.post(
    "/v1/jobs/{job_id}/steps",
    of=ROW,
    needs=SETTLE,
    verb="job.settle_steps",
    is_keyed=True,
    body=StepsRequest,
)
async def settle_steps(request: web.Request) -> web.Response:
    """Let a job go on whose code diverged from its finished steps.

    Those in `keep` stay and need not be asked for any more; those in `drop` are deleted.
    """
    state, job_id = state_of(request), request.match_info["job_id"]
    wanted = await read_body(request, StepsRequest)
    shown = await settlement.settle_steps(state, job_id, wanted)
    return web.json_response(shown, status=202)
