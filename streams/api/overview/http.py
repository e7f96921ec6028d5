"""The overview over HTTP."""

from __future__ import annotations

import sqlite3

from aiohttp import web

from streams.access.permissions import READ
from streams.api.operator_state import AppState
from streams.api.overview.attention import attention_json
from streams.api.overview.flow import flow_json
from streams.api.overview.minutes import minutes, minutes_json
from streams.api.read_model.follower import seconds_behind
from streams.api.rows.json_values import Json
from streams.api.serving.call import LISTED, Calls, state_of
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms

calls = Calls()
_FOR_A_RATE = 2
"""A rate is that of the present minute and of the one before."""


@calls.get("/v1/overview", of=LISTED, needs=READ)
async def show_overview(request: web.Request) -> web.Response:
    """Show where the flow stands and what waits for a person, of the caller's tenants.

    The stages come in the order of the flow. What cannot be told is null. A count looks at so many
    rows and no more: `more` says that there may be more.
    """
    state = state_of(request)
    return web.json_response(await state.query(lambda db: overview_json(db, state)))


@calls.get("/v1/overview/minutes", of=LISTED, needs=READ)
async def show_minutes(request: web.Request) -> web.Response:
    """Show what happened to the caller's tenants in each minute of the last hour.

    Each list of `series` begins with the minute at `since`; the last minute is not over.
    """
    found = await state_of(request).query(lambda db: minutes_json(minutes(db, wall_ms())))
    return web.json_response({"minutes": found})


def overview_json(connection: sqlite3.Connection, state: AppState) -> Json:
    """Return the whole overview of the caller's rows."""
    now = wall_ms()
    last = minutes(connection, now, _FOR_A_RATE)
    return {
        "at": rfc3339(now),
        "behind_seconds": _behind_seconds(state, now),
        "flow": flow_json(connection, last),
        "attention": attention_json(connection, state.principal, state.topology),
    }


def _behind_seconds(state: AppState, now: int) -> float | None:
    """Return how old the rows are, in seconds; None while the operator reads its topics."""
    lag = state.follower.lag
    return None if lag is None else round(seconds_behind(lag, now), 3)
