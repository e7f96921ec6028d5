"""Calls on limits: what fills each of them, what waits for it, and what is paused."""

from __future__ import annotations

import sqlite3

from aiohttp import web

from streams.access.permissions import READ
from streams.api.limits import buckets as limits
from streams.api.pauses.paused import all_pauses, pause_json
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Page
from streams.api.serving.call import LISTED, Calls, state_of
from streams.api.serving.listing import list_answer, page_query
from streams.process.wall_clock import wall_ms

calls = Calls()


@calls.get("/v1/limits", of=LISTED, needs=READ)
async def list_limits(request: web.Request) -> web.Response:
    """List limits with their buckets, by name, key and tenant; each page has all `pauses`.

    `complete` is false if there are more jobs than one answer counts.
    """
    state, query = state_of(request), page_query(request, limits.FILTERS)

    def look(connection: sqlite3.Connection) -> tuple[Page, bool, list[Json]]:
        pauses = all_pauses(connection)
        found = limits.limits_page(connection, query, state.topology, pauses, wall_ms())
        return *found, list(map(pause_json, pauses.values()))

    page, complete, pauses = await state.query(look)
    return list_answer("limits", page, pauses=pauses, complete=complete)
