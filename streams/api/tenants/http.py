"""Calls on tenants; each change is a record on `tenants`."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import CONFIGURE, READ
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.conditions import Tagged
from streams.api.serving.request_body import name_in, read_body
from streams.api.tenants import changes
from streams.api.tenants.tags import present_tag
from streams.tenants.settings import TenantSettings

calls = Calls()

TENANT = "/v1/tenants/{tenant_id}"
_TAGGED = Tagged("tenant", "", "", present_tag)


@calls.put(
    TENANT,
    of=TENANT_IN_PATH,
    needs=CONFIGURE,
    verb="tenant.set",
    body=TenantSettings,
    tagged=_TAGGED,
)
async def put_tenant(request: web.Request) -> web.Response:
    """Create a tenant, or replace its settings and enable it."""
    tenant_id = name_in(request, "tenant_id")
    settings = await read_body(request, TenantSettings)
    return web.json_response(await changes.put(state_of(request), tenant_id, settings))


@calls.get(TENANT, of=TENANT_IN_PATH, needs=READ, tagged=_TAGGED)
async def get_tenant(request: web.Request) -> web.Response:
    """Show a tenant and the names of its sources."""
    shown = await changes.show(state_of(request), request.match_info["tenant_id"])
    return web.json_response(shown)


@calls.delete(TENANT, of=TENANT_IN_PATH, needs=CONFIGURE, verb="tenant.disable", tagged=_TAGGED)
async def disable_tenant(request: web.Request) -> web.Response:
    """Disable a tenant: its hooks and submissions are refused, its data stays."""
    shown = await changes.disable(state_of(request), request.match_info["tenant_id"])
    return web.json_response(shown)
