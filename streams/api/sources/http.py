"""Calls on a tenant's sources; each change is a record on `tenants`."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import CONFIGURE, READ, SECRETS
from streams.api.rows.paging import Page
from streams.api.serving.call import LISTED, TENANT_IN_PATH, Calls, state_of
from streams.api.serving.conditions import Tagged
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import name_in, read_body
from streams.api.sources import changes
from streams.api.sources.sign_request import SignRequest
from streams.api.sources.signing import signed
from streams.api.sources.source_request import RotateRequest, SourceRequest
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.table import source_json
from streams.api.tenants.tags import present_tag
from streams.process.wall_clock import wall_ms

calls = Calls()

MAX_SIGNED_BYTES = 36 * 1024 * 1024
"""Of the request: the largest body that a source takes, 25 MiB, in base64."""

SOURCES = "/v1/tenants/{tenant_id}/sources"
SOURCE = SOURCES + "/{source}"
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


@calls.get(SOURCES, of=TENANT_IN_PATH, needs=READ)
async def list_sources(request: web.Request) -> web.Response:
    """List a tenant's sources by name, disabled ones too."""
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    await known_tenant(state, tenant_id)
    found, now = await state.query(lambda db: tenants.sources(db, tenant_id)), wall_ms()
    shown = tuple(source_json(found[name], now) for name in sorted(found))
    return list_answer("sources", Page(shown))


@calls.get("/v1/sources", of=LISTED, needs=READ)
async def list_all_sources(request: web.Request) -> web.Response:
    """List the sources of all tenants by tenant and name, disabled ones too."""
    query, now = page_query(request, {}), wall_ms()
    page = await state_of(request).query(lambda db: tenants.sources_page(db, query, now))
    return list_answer("sources", page)


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
