"""Actions on deliveries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams.api.bulk.action import Action, Dealt, Doing, Row, once
from streams.api.bulk.filters import Selecting, condition
from streams.api.deliveries import table as deliveries
from streams.api.deliveries.retry import retry
from streams.api.fields import Name
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.serde.delivery_states import RECOVERABLE, DeliveryStatus
from streams.topology.model import Topology


class DeliveryFilter(Selecting):
    """Which deliveries; times are those of their creation."""

    endpoint_id: Name | None = None
    status: DeliveryStatus | None = None
    event_id: Name | None = None
    job_id: Name | None = None


_condition = condition(
    replace(deliveries.LISTING, where="kind <> 'test'"), "delivery_id", "created_at"
)


async def _retry(state: AppState, doing: Doing) -> Dealt:
    return await once(state, lambda: retry(state, doing.id))


async def _recover(state: AppState, doing: Doing) -> Dealt:
    """Retry a delivery that is still parked or dead: somebody else may have recovered it."""

    async def ask() -> Json:
        row = await state.query(lambda db: deliveries.delivery(db, doing.id))
        was_ours = row is not None and row.command_id == state.command_id
        if row is not None and row.status not in RECOVERABLE and not was_ours:
            detail = f"delivery {doing.id} is {row.status}: only one that is parked or dead is sent"
            raise Refusal(409, "not-recoverable", detail)
        return await retry(state, doing.id)

    return await once(state, ask)


def _unrecoverable(_: Topology, __: Any, row: Row) -> str | None:
    return None if row.columns[0] in RECOVERABLE else "not_recoverable"


RETRY = Action(
    name="deliveries.retry",
    table=deliveries.TABLE,
    order="created_at, delivery_id",
    columns="delivery_id, tenant_id",
    filter=DeliveryFilter,
    condition=_condition,
    excludes=lambda *_: None,
    deal=_retry,
)
RECOVER = replace(
    RETRY,
    name="deliveries.recover",
    columns="delivery_id, tenant_id, status",
    excludes=_unrecoverable,
    deal=_recover,
)
