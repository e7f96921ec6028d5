"""Sends one signed request to an endpoint, and tells what came of it."""

from __future__ import annotations

import sqlite3

from streams.api.decisions import decided_delivery, delivery_command
from streams.api.deliveries import table as deliveries
from streams.api.endpoints.changes import known_endpoint
from streams.api.operator_state import AppState, not_shown
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.api.rows.table import RowKey
from streams.serde.delivery_records import TEST, DeliveryCommand
from streams.serde.delivery_states import DELIVERED, PENDING
from streams.tenants.endpoints import EndpointSettings, endpoint_settings

_ATTEMPTS = 3
"""How often the stage tries a test."""
_BETWEEN_SECONDS = 5.0
"""The time that a test takes beside its attempts: the waits between them, and the commits."""


async def send_test(state: AppState, tenant_id: str, name: str, sample: str | None) -> Json:
    """Deliver a test, to a disabled endpoint too; return once it is delivered or has failed.

    Raises:
        Refusal: 404, there is no such endpoint; 409, it has no URL; 503, the delivery stage does
            not take the test.
    """
    record = await known_endpoint(state, tenant_id, name)
    settings = endpoint_settings(record)
    if settings.url is None:
        detail = f"endpoint {record.id!r} has no url: only jobs with a callback_url use it"
        raise Refusal(409, "endpoint-without-url", detail)
    command_id = state.new_command_id()
    command = delivery_command(
        state,
        command_id,
        record.tenant_id,
        record.id,
        TEST,
        delivery_id=command_id.replace("cmd_", "dlv_"),
        sample=sample,
    )
    return await _tested(state, command, settings)


async def _tested(state: AppState, command: DeliveryCommand, settings: EndpointSettings) -> Json:
    delivery_id = command.delivery_id or ""
    row: RowKey = ("deliveries", (delivery_id,))

    def shown(connection: sqlite3.Connection) -> Json | None:
        return deliveries.shown_delivery(connection, delivery_id)

    def ended(connection: sqlite3.Connection) -> Json | None:
        found = shown(connection)
        return found if found is not None and _has_ended(found) else None

    decision = await decided_delivery(state, command, "deliveries")
    if not decision.is_known:
        raise Refusal(
            503,
            "delivery-silent",
            "the delivery stage has not taken the test: is "
            "`tidegate delivery` running? Then send the call again",
        )
    attempts: list[RowKey] = [("attempts", (delivery_id, n + 1)) for n in range(_ATTEMPTS)]
    seconds = _ATTEMPTS * settings.timeout_seconds + _BETWEEN_SECONDS
    await state.wait_for(row, ended, attempts, seconds)
    found = await state.query(shown)
    if found is None:
        raise not_shown()
    return {
        "delivery_id": delivery_id,
        "delivered": found["status"] == DELIVERED,
        "attempts": found["attempts"],
    }


def _has_ended(shown: Json) -> bool:
    """Return whether no attempt follows, and the read model shows all that were made."""
    made: int = shown["attempt_count"]
    over = shown["status"] != PENDING or made >= _ATTEMPTS
    return over and len(shown["attempts"]) >= made
