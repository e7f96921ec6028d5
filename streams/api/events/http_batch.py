"""`POST /v1/tenants/{t}/events:batch`: many events at once, each with its own answer."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE
from streams.api.events.batch import let_in
from streams.api.events.batch_request import BatchRequest
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.request_body import read_body, traceparent

calls = Calls()

MAX_BATCH_BYTES = 8 * 1024 * 1024


@calls.post(
    "/v1/tenants/{tenant_id}/events:batch",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="event.submit",
    body=BatchRequest,
)
async def submit_events(request: web.Request) -> web.Response:
    """Take up to 500 events; answer `accepted`, `duplicate` or `refused` for each, in order."""
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    wanted = await read_body(request.clone(client_max_size=MAX_BATCH_BYTES), BatchRequest)
    return web.json_response(await let_in(state, tenant_id, wanted.events, traceparent(request)))
