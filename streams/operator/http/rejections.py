"""Calls on refused deliveries: how often, why, and when, as every ingress counted them."""

from __future__ import annotations

from aiohttp import web

from streams.operator.http.app_state import PARTS, AppState
from streams.operator.http.listing import PageWanted, list_answer, page_wanted
from streams.operator.http.views import rejection_json
from streams.operator.read_model import queries
from streams.operator.tenant_guards import known_tenant

routes = web.RouteTableDef()


@routes.get("/v1/rejections")
async def list_rejections(request: web.Request) -> web.Response:
    """Refusals newest first, also those whose path named nobody."""
    wanted = page_wanted(request, "tenant_id")
    return await _page(request.app[PARTS], wanted.filters["tenant_id"], wanted)


@routes.get("/v1/tenants/{tenant_id}/rejections")
async def list_rejections_of_tenant(request: web.Request) -> web.Response:
    """A tenant's refusals newest first."""
    state, tenant_id = request.app[PARTS], request.match_info["tenant_id"]
    wanted = page_wanted(request)
    await known_tenant(state, tenant_id)
    return await _page(state, tenant_id, wanted)


async def _page(state: AppState, tenant_id: str | None, wanted: PageWanted) -> web.Response:
    found, after = await state.ask(
        lambda db: queries.rejections_page(db, tenant_id, wanted.limit, wanted.cursor)
    )
    return list_answer("rejections", [rejection_json(each) for each in found], after)
