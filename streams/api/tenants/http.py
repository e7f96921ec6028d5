"""Calls on tenants; each change is a record on `tenants`."""

from __future__ import annotations

from aiohttp import web

from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import name_in, read_body
from streams.api.serving.state import STATE
from streams.api.tenants import changes
from streams.api.tenants import table as tenants
from streams.tenants.settings import TenantSettings

routes = web.RouteTableDef()

TENANT = "/v1/tenants/{tenant_id}"


@routes.put(TENANT)
async def put_tenant(request: web.Request) -> web.Response:
    """Create a tenant, or replace its settings and enable it."""
    tenant_id = name_in(request, "tenant_id")
    settings = await read_body(request, TenantSettings)
    return web.json_response(await changes.put(request.app[STATE], tenant_id, settings))


@routes.get("/v1/tenants")
async def list_tenants(request: web.Request) -> web.Response:
    """List tenants by id, disabled and erased ones too."""
    query = page_query(request, {})
    page = await request.app[STATE].query(lambda db: tenants.tenants_page(db, query))
    return list_answer("tenants", page)


@routes.get(TENANT)
async def get_tenant(request: web.Request) -> web.Response:
    """Show a tenant and the names of its sources."""
    shown = await changes.show(request.app[STATE], request.match_info["tenant_id"])
    return web.json_response(shown)


@routes.delete(TENANT)
async def disable_tenant(request: web.Request) -> web.Response:
    """Disable a tenant: its hooks and submissions are refused, its data stays."""
    shown = await changes.disable(request.app[STATE], request.match_info["tenant_id"])
    return web.json_response(shown)
