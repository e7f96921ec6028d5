"""Changes of a tenant's schedules; each is a command to the dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from streams.api.decisions import Decision, decided, first_decision
from streams.api.job_types.input_check import refuse_misfit
from streams.api.job_types.known import doubt_about
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.rows.table import Row
from streams.api.schedules import table as schedules
from streams.api.schedules.schedule_request import ScheduleRequest
from streams.api.schedules.table import schedule_json
from streams.api.tenants.guards import enabled_tenant
from streams.process.wall_clock import wall_ms
from streams.schedules.tag import NONE, tag_of
from streams.serde.records import DeleteSchedule, PauseSchedule, ScheduleRow, SetSchedule

_Body = SetSchedule | PauseSchedule | DeleteSchedule
Change = Literal["created", "changed", "asked"]
"""What a command did to a schedule; `asked`: the dispatcher has not said."""


async def set_schedule(
    state: AppState, tenant_id: str, wanted: ScheduleRequest
) -> tuple[Json, Change]:
    """Create a schedule, or change the one of this id; return it, and what became of the command.

    `warning` says that nothing is known to handle its type, or is null.

    Raises:
        Refusal: 403, 404 or 409, the tenant gets no jobs; 409, an application declares the
            schedule; 412, the condition of the call does not hold; 413 or 422, its input or a
            field is wrong.
    """
    decision = await _first_decision(state, tenant_id, wanted.id)
    if decision is None:
        decision = await _decided(state, tenant_id, await _setting(state, tenant_id, wanted))
    if decision.entry is None:
        return _unanswered(tenant_id, wanted.id, decision), "asked"
    doubt = await state.query(lambda db: doubt_about(db, state.topology, wanted.job))
    shown = {**await _shown(state, tenant_id, wanted.id), "warning": doubt}
    return shown, "changed" if decision.entry.before else "created"


async def pause_schedule(
    state: AppState, tenant_id: str, id_: str, note: str, *, pause: bool
) -> tuple[Json, Change]:
    """Stop a schedule, or let it go on with its next time.

    Raises:
        Refusal: 404; 409, the dispatcher refuses.
    """
    row = await _known(state, tenant_id, id_)
    decision = await _first_decision(state, tenant_id, row.schedule_id)
    if decision is None:
        by, expected = state.principal.id, await _expected(state, tenant_id, row.schedule_id)
        body = PauseSchedule(row.schedule_id, pause, note.strip(), by, expected)
        decision = await _decided(state, row.tenant_id, body)
    if not decision.is_known:
        return _unanswered(row.tenant_id, row.schedule_id, decision), "asked"
    return await _shown(state, row.tenant_id, row.schedule_id), "changed"


async def delete_schedule(state: AppState, tenant_id: str, id_: str) -> tuple[Json, Change]:
    """Remove a schedule; its jobs stay.

    Raises:
        Refusal: 404; 409, the dispatcher refuses.
    """
    row = await _known(state, tenant_id, id_)
    expected = await _expected(state, tenant_id, row.schedule_id)
    body = DeleteSchedule(row.schedule_id, state.principal.id, expected)
    decision = await _decided(state, row.tenant_id, body)
    if not decision.is_known:
        return _unanswered(row.tenant_id, row.schedule_id, decision), "asked"
    return {"tenant_id": row.tenant_id, "id": row.schedule_id, "removed": True}, "changed"


async def show(state: AppState, tenant_id: str, id_: str) -> Json:
    """Return a schedule with its next five times; refuse with 404 if it is unknown."""
    row = await _known(state, tenant_id, id_)
    return await state.query(lambda db: schedules.shown_schedule(db, row))


async def present_tag(state: AppState, key: Row) -> str | None:
    """Return the present tag of the schedule that `key` (tenant, kind, id) names."""
    return tag_of(await _found(state, key[0], key[2]))


async def _expected(state: AppState, tenant_id: str, id_: str) -> str | None:
    """Return the tag that a command expects, so that the dispatcher compares it; None for any.

    Raises:
        Refusal: 412, the condition of the call does not hold.
    """
    if state.condition is None:
        return None
    present = await _tag_after_barrier(state, tenant_id, id_)
    state.condition.require(present)
    return present or NONE


async def _setting(state: AppState, tenant_id: str, wanted: ScheduleRequest) -> SetSchedule:
    """Return what the dispatcher is asked; raises what `set_schedule` raises."""
    spec = wanted.spec(wall_ms())
    await enabled_tenant(state, tenant_id)
    await refuse_misfit(state, spec.job, spec.input)
    by, expected = state.principal.id, await _expected(state, tenant_id, wanted.id)
    return SetSchedule(wanted.id, spec, wanted.paused, wanted.note, by, expected)


async def _first_decision(state: AppState, tenant_id: str, id_: str) -> Decision | None:
    async with _comparing(state, tenant_id, id_):
        return await first_decision(state, tenant_id, "schedules")


async def _decided(state: AppState, tenant_id: str, body: _Body) -> Decision:
    async with _comparing(state, tenant_id, body.schedule_id):
        return await decided(state, tenant_id, "", body, "schedules")


@asynccontextmanager
async def _comparing(state: AppState, tenant_id: str, id_: str) -> AsyncIterator[None]:
    """Refuse with 412 where the dispatcher saw that the condition of the call does not hold."""
    try:
        yield
    except Refusal as refusal:
        if state.condition is None or refusal.name != "schedule-changed":
            raise
        present = await _tag_after_barrier(state, tenant_id, id_)
        raise state.condition.failed(refusal.detail, present) from refusal


async def _tag_after_barrier(state: AppState, tenant_id: str, id_: str) -> str | None:
    await state.read_barrier(("schedules", state.home(tenant_id)))
    return tag_of(await _found(state, tenant_id, id_))


def _unanswered(tenant_id: str, id_: str, decision: Decision) -> Json:
    """Return that a command is durable, and that the dispatcher has not said what it decides."""
    return {"tenant_id": tenant_id, "id": id_, **decision.json()}


async def _shown(state: AppState, tenant_id: str, id_: str) -> Json:
    """Return a schedule that the dispatcher has changed.

    Raises:
        Refusal: 503, its row is late; 404, somebody has removed it since.
    """
    if await _found(state, tenant_id, id_) is None:
        await state.read_barrier(("schedules", state.home(tenant_id)))
    return schedule_json(await _known(state, tenant_id, id_))


async def _known(state: AppState, tenant_id: str, id_: str) -> ScheduleRow:
    row = await _found(state, tenant_id, id_)
    if row is None:
        all_ = get("tenants", tenant_id, "schedules")
        raise unknown("schedule", id_, f"compare the id with {all_}", all_)
    return row


async def _found(state: AppState, tenant_id: str, schedule_id: str) -> ScheduleRow | None:
    return await state.query(lambda db: schedules.schedule(db, tenant_id, schedule_id))
