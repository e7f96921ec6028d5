"""Calls on limits: what fills each of them, what waits for it, and what is paused."""

from __future__ import annotations

import sqlite3

from aiohttp import web

from streams.operator.http.app_state import STATE
from streams.operator.http.listing import list_answer, page_query
from streams.operator.resources import limits
from streams.operator.resources.json_values import Json
from streams.operator.resources.paging import Page
from streams.operator.resources.pauses import all_pauses, pause_json
from streams.process.wall_clock import wall_ms

routes = web.RouteTableDef()


@routes.get("/v1/limits")
async def list_limits(request: web.Request) -> web.Response:
    """List limits with their buckets, by name, key and tenant; each page has all `pauses`.

    `complete` is false if there are more jobs than one answer counts.
    """
    state, query = request.app[STATE], page_query(request, limits.FILTERS)

    def look(connection: sqlite3.Connection) -> tuple[Page, bool, list[Json]]:
        pauses = all_pauses(connection)
        found = limits.limits_page(connection, query, state.topology, pauses, wall_ms())
        return *found, list(map(pause_json, pauses.values()))

    page, complete, pauses = await state.query(look)
    return list_answer("limits", page, pauses=pauses, complete=complete)
