"""Shows one delivery, and drives it anew."""

from __future__ import annotations

from streams.api.decisions import decided_delivery, delivery_command
from streams.api.deliveries import table as deliveries
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import refuse_erased
from streams.serde.delivery_records import RETRY


async def show(state: AppState, delivery_id: str) -> Json:
    """Return a delivery with all its attempts that are kept; refuse with 404 if it is unknown."""
    shown = await state.query(lambda db: deliveries.shown_delivery(db, delivery_id))
    if shown is None:
        raise _unknown(delivery_id)
    return shown


async def retry(state: AppState, delivery_id: str) -> Json:
    """Make a delivery due now, whatever its status; each call drives it anew.

    Raises:
        Refusal: 404; 409, its tenant was erased, or the delivery stage refuses.
    """
    row = await state.query(lambda db: deliveries.delivery(db, delivery_id))
    if row is None:
        raise _unknown(delivery_id)
    await refuse_erased(state, row.tenant_id)
    id_, place = state.new_command_id(), (row.tenant_id, row.endpoint_id)
    command = delivery_command(state, id_, *place, RETRY, delivery_id=delivery_id)
    decision = await decided_delivery(state, command, "deliveries")
    found = await state.query(lambda db: deliveries.shown_delivery(db, delivery_id))
    return {**(found or {}), **decision.json()}


def _unknown(delivery_id: str) -> Refusal:
    all_ = get("deliveries")
    hint = "it was never made, is not shown yet, or has been purged since it ended"
    return unknown("delivery", delivery_id, f"{hint}: compare the id with {all_}", all_)
