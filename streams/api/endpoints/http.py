"""Calls on a tenant's outgoing endpoints; each change is a record on `tenants`."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import CONFIGURE, OPERATE, READ, SECRETS
from streams.api.endpoints import changes, trial
from streams.api.endpoints.endpoint_request import EndpointRequest, EndpointRotation
from streams.api.endpoints.sample_request import SampleRequest
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.conditions import Tagged
from streams.api.serving.request_body import name_in, read_body
from streams.api.tenants.tags import present_tag

calls = Calls()

ENDPOINT = "/v1/tenants/{tenant_id}/endpoints/{endpoint}"
_TAGGED = Tagged("endpoint", "endpoints", "endpoint", present_tag)


@calls.put(
    ENDPOINT,
    of=TENANT_IN_PATH,
    needs=CONFIGURE,
    verb="endpoint.set",
    body=EndpointRequest,
    tagged=_TAGGED,
)
async def put_endpoint(request: web.Request) -> web.Response:
    """Create or replace an endpoint; see `EndpointRequest`. A secret made here is shown here."""
    state = state_of(request)
    tenant_id, name = name_in(request, "tenant_id"), name_in(request, "endpoint")
    wanted = await read_body(request, EndpointRequest)
    return web.json_response(await changes.put_endpoint(state, tenant_id, name, wanted))


@calls.post(
    ENDPOINT + "/rotate",
    of=TENANT_IN_PATH,
    needs=SECRETS,
    verb="endpoint.rotate",
    body=EndpointRotation,
    tagged=_TAGGED,
)
async def rotate_key(request: web.Request) -> web.Response:
    """Give an endpoint a new key; the old one signs beside it until the overlap is over."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request, EndpointRotation)
    shown = await changes.rotate(state, path["tenant_id"], path["endpoint"], wanted)
    return web.json_response(shown)


@calls.get(ENDPOINT, of=TENANT_IN_PATH, needs=READ, tagged=_TAGGED)
async def get_endpoint(request: web.Request) -> web.Response:
    """Show an endpoint, its keys without their secrets, and the names of its headers."""
    path = request.match_info
    shown = await changes.show(state_of(request), path["tenant_id"], path["endpoint"])
    return web.json_response(shown)


@calls.delete(ENDPOINT, of=TENANT_IN_PATH, needs=CONFIGURE, verb="endpoint.remove", tagged=_TAGGED)
async def remove_endpoint(request: web.Request) -> web.Response:
    """Delete an endpoint with its keys; what was not delivered yet is parked."""
    path = request.match_info
    gone = await changes.remove(state_of(request), path["tenant_id"], path["endpoint"])
    return web.json_response(gone)


@calls.post(
    ENDPOINT + "/test",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="endpoint.test",
    is_keyed=True,
    body=SampleRequest,
)
async def send_test(request: web.Request) -> web.Response:
    """Deliver a test, to a disabled endpoint too; answer once it is delivered or has failed."""
    state, path = state_of(request), request.match_info
    sample = (await read_body(request, SampleRequest)).stored()
    told = await trial.send_test(state, path["tenant_id"], path["endpoint"], sample)
    return web.json_response(told)
