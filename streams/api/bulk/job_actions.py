"""Actions on jobs."""

from __future__ import annotations

from typing import Any

from streams.api.bulk.action import Action, Dealt, Doing, Row, once
from streams.api.bulk.filters import Selecting, condition
from streams.api.fields import Body, Name
from streams.api.jobs import table as jobs
from streams.api.jobs.cancel import cancel
from streams.api.jobs.move_request import MoveRequest
from streams.api.jobs.moves import move, require_pool
from streams.api.operator_state import AppState
from streams.api.rows.paging import Listing
from streams.serde.job_states import MOVABLE, TERMINAL, JobStatus
from streams.topology.model import Topology


class JobFilter(Selecting):
    """Which jobs; times are those of their creation."""

    status: JobStatus | None = None
    type: Name | None = None
    workflow_id: Name | None = None
    replay_id: Name | None = None


class MoveParams(Body):
    """The pool to which the jobs are moved."""

    pool: Name


_condition = condition(
    Listing(jobs.TABLE.name, (), lambda _, __: {}, jobs.FILTERS), "job_id", "created_at"
)


async def _cancel(state: AppState, doing: Doing) -> Dealt:
    return await once(state, lambda: cancel(state, doing.id, doing.note))


async def _move(state: AppState, doing: Doing) -> Dealt:
    assert isinstance(doing.params, MoveParams)  # noqa: S101  validated as such
    wanted = MoveRequest(pool=doing.params.pool, note=doing.note)
    return await once(state, lambda: move(state, doing.id, wanted))


def _ended(_: Topology, __: Any, row: Row) -> str | None:
    return "ended" if row.columns[0] in TERMINAL else None


def _immovable(_: Topology, params: MoveParams, row: Row) -> str | None:
    status, pool = row.columns
    if status not in MOVABLE:
        return "ended" if status in TERMINAL else "not_waiting"
    return "in_that_pool" if pool == params.pool else None


CANCEL = Action(
    name="jobs.cancel",
    table=jobs.TABLE,
    order="created_at, job_id",
    columns="job_id, tenant_id, status",
    filter=JobFilter,
    condition=_condition,
    excludes=_ended,
    deal=_cancel,
)
MOVE = Action(
    name="jobs.move",
    table=jobs.TABLE,
    order="created_at, job_id",
    columns="job_id, tenant_id, status, pool",
    filter=JobFilter,
    condition=_condition,
    excludes=_immovable,
    deal=_move,
    params=MoveParams,
    check=lambda state, params: require_pool(state, params.pool),
)
