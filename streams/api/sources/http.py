"""Calls on a tenant's sources; each change is a record on `tenants`."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import CONFIGURE, OPERATE, READ, SECRETS
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.conditions import Tagged
from streams.api.serving.request_body import name_in, read_body, traceparent
from streams.api.sources import changes, trial
from streams.api.sources.sign_request import SignRequest
from streams.api.sources.signing import signed
from streams.api.sources.source_request import RotateRequest, SourceRequest
from streams.api.sources.trial_request import SourceTrialRequest
from streams.api.tenants.tags import present_tag

calls = Calls()

MAX_SIGNED_BYTES = 36 * 1024 * 1024
"""Of the request: the largest body that a source takes, 25 MiB, in base64."""

SOURCE = "/v1/tenants/{tenant_id}/sources/{source}"
_TAGGED = Tagged("source", "sources", "source", present_tag)


@calls.put(
    SOURCE,
    of=TENANT_IN_PATH,
    needs=CONFIGURE,
    verb="source.set",
    body=SourceRequest,
    tagged=_TAGGED,
)
async def put_source(request: web.Request) -> web.Response:
    """Create or replace a source and its signing secret; see `SourceRequest`."""
    state = state_of(request)
    tenant_id, name = name_in(request, "tenant_id"), name_in(request, "source")
    wanted = await read_body(request, SourceRequest)
    return web.json_response(await changes.put_source(state, tenant_id, name, wanted))


@calls.post(
    SOURCE + "/rotate",
    of=TENANT_IN_PATH,
    needs=SECRETS,
    verb="source.rotate",
    body=RotateRequest,
    tagged=_TAGGED,
)
async def rotate_secret(request: web.Request) -> web.Response:
    """Set a source's new secret; the old one verifies until the overlap is over."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request, RotateRequest)
    shown = await changes.rotate(state, path["tenant_id"], path["source"], wanted)
    return web.json_response(shown)


@calls.get(SOURCE, of=TENANT_IN_PATH, needs=READ, tagged=_TAGGED)
async def get_source(request: web.Request) -> web.Response:
    """Show a source, how many secrets it has, and until when the old ones verify."""
    path = request.match_info
    shown = await changes.show(state_of(request), path["tenant_id"], path["source"])
    return web.json_response(shown)


@calls.delete(SOURCE, of=TENANT_IN_PATH, needs=CONFIGURE, verb="source.disable", tagged=_TAGGED)
async def disable_source(request: web.Request) -> web.Response:
    """Disable a source and delete its secrets; a PUT sets it up again."""
    path = request.match_info
    shown = await changes.disable(state_of(request), path["tenant_id"], path["source"])
    return web.json_response(shown)


@calls.post(SOURCE + "/sign", of=TENANT_IN_PATH, needs=SECRETS, verb="source.sign")
async def sign_delivery(request: web.Request) -> web.Response:
    """Sign a delivery under the source's newest secret; see `SignRequest`."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request.clone(client_max_size=MAX_SIGNED_BYTES), SignRequest)
    return web.json_response(await signed(state, path["tenant_id"], path["source"], wanted))


@calls.post(
    SOURCE + "/test",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="source.test",
    is_keyed=True,
    body=SourceTrialRequest,
)
async def send_test(request: web.Request) -> web.Response:
    """Take in a sample as if the source's vendor delivered it; answer the event, or why not."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request, SourceTrialRequest)
    told = await trial.send_test(
        state, path["tenant_id"], path["source"], wanted, traceparent(request)
    )
    return web.json_response(told)
