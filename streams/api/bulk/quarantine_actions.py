"""Actions on bodies in quarantine."""

from __future__ import annotations

from typing import Any

from streams.api.bulk.action import Action, Dealt, Doing, Row
from streams.api.bulk.filters import Selecting, condition
from streams.api.fields import Name
from streams.api.operator_state import AppState
from streams.api.quarantine import table as quarantine
from streams.api.quarantine.release import release
from streams.topology.model import Topology


class QuarantineFilter(Selecting):
    """Which bodies; times are those at which they came."""

    source: Name | None = None


async def _release(state: AppState, doing: Doing) -> Dealt:
    return Dealt(made=(await release(state, doing.id, doing.note)).job_id)


def _released(_: Topology, __: Any, row: Row) -> str | None:
    return None if row.columns[0] is None else "released"


RELEASE = Action(
    name="quarantine.release",
    table=quarantine.TABLE,
    order="at, id",
    columns=f"id, tenant_id, NULLIF(status, '{quarantine.WAITING}')",
    filter=QuarantineFilter,
    condition=condition(quarantine.LISTING, "id", "at"),
    excludes=_released,
    deal=_release,
)
