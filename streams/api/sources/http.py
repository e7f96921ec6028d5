"""Calls on a tenant's sources; each change is a record on `tenants`."""

from __future__ import annotations

from aiohttp import web

from streams.api.rows.paging import Page
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import name_in, read_body
from streams.api.serving.state import STATE
from streams.api.sources import changes
from streams.api.sources.source_request import RotateRequest, SourceRequest
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.table import source_json
from streams.process.wall_clock import wall_ms

routes = web.RouteTableDef()

SOURCES = "/v1/tenants/{tenant_id}/sources"
SOURCE = SOURCES + "/{source}"


@routes.put(SOURCE)
async def put_source(request: web.Request) -> web.Response:
    """Create or replace a source and its signing secret; see `SourceRequest`."""
    state = request.app[STATE]
    tenant_id, name = name_in(request, "tenant_id"), name_in(request, "source")
    wanted = await read_body(request, SourceRequest)
    return web.json_response(await changes.put(state, tenant_id, name, wanted))


@routes.post(SOURCE + "/rotate")
async def rotate_secret(request: web.Request) -> web.Response:
    """Set a source's new secret; the old one verifies until the overlap is over."""
    state, path = request.app[STATE], request.match_info
    wanted = await read_body(request, RotateRequest)
    shown = await changes.rotate(state, path["tenant_id"], path["source"], wanted)
    return web.json_response(shown)


@routes.get(SOURCES)
async def list_sources(request: web.Request) -> web.Response:
    """List a tenant's sources by name, disabled ones too."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    await known_tenant(state, tenant_id)
    found, now = await state.query(lambda db: tenants.sources(db, tenant_id)), wall_ms()
    shown = tuple(source_json(found[name], now) for name in sorted(found))
    return list_answer("sources", Page(shown))


@routes.get("/v1/sources")
async def list_all_sources(request: web.Request) -> web.Response:
    """List the sources of all tenants by tenant and name, disabled ones too."""
    query, now = page_query(request, {}), wall_ms()
    page = await request.app[STATE].query(lambda db: tenants.sources_page(db, query, now))
    return list_answer("sources", page)


@routes.get(SOURCE)
async def get_source(request: web.Request) -> web.Response:
    """Show a source, how many secrets it has, and until when the old ones verify."""
    path = request.match_info
    shown = await changes.show(request.app[STATE], path["tenant_id"], path["source"])
    return web.json_response(shown)


@routes.delete(SOURCE)
async def disable_source(request: web.Request) -> web.Response:
    """Disable a source and delete its secrets; a PUT sets it up again."""
    path = request.match_info
    shown = await changes.disable(request.app[STATE], path["tenant_id"], path["source"])
    return web.json_response(shown)
