"""Calls on dropped duplicates: of which events, how many, and when the last one came."""

from __future__ import annotations

from aiohttp import web

from streams.operator.http.app_state import PARTS
from streams.operator.http.listing import list_answer, page_wanted
from streams.operator.http.views import duplicate_json
from streams.operator.read_model import queries

routes = web.RouteTableDef()


@routes.get("/v1/duplicates")
async def list_duplicates(request: web.Request) -> web.Response:
    """Events that were delivered again, newest duplicate first."""
    wanted = page_wanted(request, "tenant_id")
    found, after = await request.app[PARTS].ask(
        lambda db: queries.duplicates_page(
            db, wanted.filters["tenant_id"], wanted.limit, wanted.cursor
        )
    )
    return list_answer("duplicates", [duplicate_json(*each) for each in found], after)
