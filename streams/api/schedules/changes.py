"""Changes of a tenant's schedules; each is a command to the dispatcher."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from streams.api.command_results import run_command
from streams.api.job_types.input_check import refuse_misfit
from streams.api.job_types.known import doubt_about
from streams.api.operator_state import AppState, not_shown
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.schedules import table as schedules
from streams.api.schedules.schedule_request import ScheduleRequest
from streams.api.schedules.table import schedule_json
from streams.api.tenants.guards import enabled_tenant
from streams.process.wall_clock import wall_ms
from streams.serde.records import DeleteSchedule, PauseSchedule, ScheduleRow, SetSchedule


async def set_schedule(
    state: AppState, tenant_id: str, wanted: ScheduleRequest
) -> tuple[Json, bool]:
    """Create a schedule, or change the one of this id; return it, and whether it is new.

    `warning` says that nothing is known to handle its type, or is null.

    Raises:
        Refusal: 403, 404 or 409, the tenant gets no jobs; 409, an application declares the
            schedule; 413 or 422, its input or a field is wrong.
    """
    spec = wanted.spec(wall_ms())
    await enabled_tenant(state, tenant_id)
    before = await _found(state, tenant_id, wanted.id)
    if before is not None and before.app is not None:
        told = f"application {before.app} declares schedule {wanted.id}: change it in its code"
        raise Refusal(409, "schedule-declared", told)
    await refuse_misfit(state, spec.job, spec.input)
    body = SetSchedule(wanted.id, spec, wanted.paused, wanted.note, state.principal.id)

    def is_set(row: ScheduleRow | None) -> bool:
        return row is not None and row.spec == spec and wanted.paused in (None, row.paused)

    row = await _run(state, tenant_id, body, is_set)
    doubt = await state.query(lambda db: doubt_about(db, state.topology, spec.job))
    return {**_json(row), "warning": doubt}, before is None


async def pause_schedule(
    state: AppState, tenant_id: str, id_: str, note: str, *, pause: bool
) -> Json:
    """Stop a schedule, or let it go on with its next time.

    Raises:
        Refusal: 404; 409, the dispatcher refuses.
    """
    row = await _known(state, tenant_id, id_)
    body = PauseSchedule(row.schedule_id, pause, note.strip(), state.principal.id)

    def is_done(found: ScheduleRow | None) -> bool:
        return found is not None and found.paused == pause

    return _json(await _run(state, row.tenant_id, body, is_done))


async def delete_schedule(state: AppState, tenant_id: str, id_: str) -> Json:
    """Remove a schedule; its jobs stay.

    Raises:
        Refusal: 404; 409, the dispatcher refuses.
    """
    row = await _known(state, tenant_id, id_)
    body = DeleteSchedule(row.schedule_id, state.principal.id)
    await _run(state, row.tenant_id, body, lambda found: found is None)
    return {"tenant_id": row.tenant_id, "id": row.schedule_id, "removed": True}


async def show(state: AppState, tenant_id: str, id_: str) -> Json:
    """Return a schedule with its next five times; refuse with 404 if it is unknown."""
    row = await _known(state, tenant_id, id_)
    return await state.query(lambda db: schedules.shown_schedule(db, row))


async def _run(
    state: AppState,
    tenant_id: str,
    body: SetSchedule | PauseSchedule | DeleteSchedule,
    is_done: Callable[[ScheduleRow | None], bool],
) -> ScheduleRow | None:
    """Send a command; return the schedule as it then is.

    Raises:
        Refusal: 409 with the reason of the dispatcher; 503, the read model is late.
    """

    def shown(connection: sqlite3.Connection) -> tuple[ScheduleRow | None] | None:
        found = schedules.schedule(connection, tenant_id, body.schedule_id)
        return (found,) if is_done(found) else None

    row = ("schedules", (tenant_id, body.schedule_id))
    done = await run_command(state, tenant_id, "", body, row, shown)
    if done is None:
        raise not_shown()
    return done[0]


async def _known(state: AppState, tenant_id: str, id_: str) -> ScheduleRow:
    row = await _found(state, tenant_id, id_)
    if row is None:
        all_ = get("tenants", tenant_id, "schedules")
        raise unknown("schedule", id_, f"compare the id with {all_}", all_)
    return row


async def _found(state: AppState, tenant_id: str, schedule_id: str) -> ScheduleRow | None:
    return await state.query(lambda db: schedules.schedule(db, tenant_id, schedule_id))


def _json(row: ScheduleRow | None) -> Json:
    return {} if row is None else schedule_json(row)
