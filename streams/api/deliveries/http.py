"""Calls on one delivery: show it with its attempts, drive it anew."""

from __future__ import annotations

import sqlite3

from aiohttp import web

from streams.api.command_results import delivery_command, run_delivery_command
from streams.api.deliveries import table as deliveries
from streams.api.fields import Body
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import refuse_erased
from streams.serde import ids
from streams.serde.delivery_records import RETRY, Delivery

routes = web.RouteTableDef()


@routes.get("/v1/deliveries/{delivery_id}")
async def get_delivery(request: web.Request) -> web.Response:
    """Show a delivery with all its attempts that are kept."""
    state, delivery_id = request.app[STATE], request.match_info["delivery_id"]
    shown = await state.query(lambda db: deliveries.shown_delivery(db, delivery_id))
    if shown is None:
        raise _unknown(delivery_id)
    return web.json_response(shown)


@routes.post("/v1/deliveries/{delivery_id}/retry")
async def retry_delivery(request: web.Request) -> web.Response:
    """Make a delivery due now, whatever its status; each call drives it anew."""
    state, delivery_id = request.app[STATE], request.match_info["delivery_id"]
    await read_body(request, Body)
    row = await _known(state, delivery_id)
    await refuse_erased(state, row.tenant_id)
    command = delivery_command(
        ids.new_id("cmd"), row.tenant_id, row.endpoint_id, RETRY, delivery_id=delivery_id
    )

    def shown(connection: sqlite3.Connection) -> bool | None:
        found = deliveries.delivery(connection, delivery_id)
        return True if found is not None and found.command_id == command.command_id else None

    answered = await run_delivery_command(state, command, ("deliveries", (delivery_id,)), shown)
    found = await state.query(lambda db: deliveries.shown_delivery(db, delivery_id))
    return web.json_response({**(found or {}), "answered": answered is not None}, status=202)


async def _known(state: AppState, delivery_id: str) -> Delivery:
    row = await state.query(lambda db: deliveries.delivery(db, delivery_id))
    if row is None:
        raise _unknown(delivery_id)
    return row


def _unknown(delivery_id: str) -> Refusal:
    return unknown(
        "delivery",
        delivery_id,
        "it was never made, is not shown yet, or has been purged since it ended: compare the id "
        "with GET /v1/deliveries",
    )
