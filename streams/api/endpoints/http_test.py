"""`POST .../endpoints/{id}/test`: one signed request to an endpoint, and what came of it."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE
from streams.api.endpoints import trial
from streams.api.endpoints.http import ENDPOINT
from streams.api.endpoints.sample_request import SampleRequest
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.post(
    ENDPOINT + "/test", of=TENANT_IN_PATH, needs=OPERATE, verb="endpoint.test", body=SampleRequest
)
async def send_test(request: web.Request) -> web.Response:
    """Deliver a test, to a disabled endpoint too; answer once it is delivered or has failed."""
    state, path = state_of(request), request.match_info
    sample = (await read_body(request, SampleRequest)).stored()
    told = await trial.send_test(state, path["tenant_id"], path["endpoint"], sample)
    return web.json_response(told)
