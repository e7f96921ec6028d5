"""Calls on a tenant's schedules: create and change, show, pause, resume, delete."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Annotated

from aiohttp import web
from pydantic import AfterValidator, Field

from streams.api.command_results import run_command
from streams.api.fields import Body, Moment, Name, Writable, bounded, stored_json
from streams.api.job_types.input_check import refuse_misfit
from streams.api.job_types.known import doubt_about
from streams.api.jobs.job_request import MAX_INPUT_BYTES
from streams.api.operator_state import SUBMITTED_BY, AppState, not_shown
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.rows.json_values import Json
from streams.api.schedules import table as schedules
from streams.api.schedules.table import schedule_json
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import enabled_tenant
from streams.http.moments import milliseconds
from streams.process.wall_clock import wall_ms
from streams.schedules.definition import GRACE_SECONDS, ID, LATEST, definition, require_future
from streams.schedules.timetable import WrongSchedule
from streams.serde.records import (
    DeleteSchedule,
    PauseSchedule,
    ScheduleRow,
    ScheduleSpec,
    SetSchedule,
)

routes = web.RouteTableDef()

SCHEDULES = "/v1/tenants/{tenant_id}/schedules"
SCHEDULE = SCHEDULES + "/{schedule_id}"

Note = Annotated[str, AfterValidator(bounded)]


class ScheduleRequest(Body):
    """A schedule; give one of `cron`, `every_seconds` and `at`. Times are RFC 3339."""

    id: str
    job: Name
    input: Writable = Field(default_factory=dict)
    cron: str | None = None
    every_seconds: float | None = None
    at: Moment | None = None
    tz: str = "UTC"
    missed: str = LATEST
    grace_seconds: float = GRACE_SECONDS
    overlap: str = "allow"
    window_seconds: float = 0
    starts_at: Moment | None = Field(default=None, alias="from")
    until: Moment | None = None
    paused: bool | None = None
    note: Note = ""

    def spec(self, now: int) -> ScheduleSpec:
        """Return the definition; `now` is in milliseconds.

        Raises:
            Refusal: 413, the input is too large; 422, a field is wrong, or it would never fire.
        """
        input_ = stored_json(self.input, "input", MAX_INPUT_BYTES)
        if not ID.fullmatch(self.id):
            told = "use 1 to 128 letters, digits, `_`, `.`, `:` and `-`, first a letter or digit"
            raise invalid("id", told)
        try:
            spec = definition(
                self.job,
                input_,
                cron=self.cron,
                every_seconds=self.every_seconds,
                at=_ms(self.at),
                tz=self.tz,
                missed=self.missed,
                grace_seconds=self.grace_seconds,
                overlap=self.overlap,
                window_seconds=self.window_seconds,
                starts_at=_ms(self.starts_at),
                ends_at=_ms(self.until),
            )
            require_future(spec, now)
        except WrongSchedule as error:
            raise invalid(error.field, error.message) from None
        return spec


class NoteRequest(Body):
    """Body of a pause and of a resume."""

    note: Note = ""


@routes.post(SCHEDULES)
async def set_schedule(request: web.Request) -> web.Response:
    """Create a schedule, or change the one of this id; the same again changes nothing.

    `warning` says that nothing is known to handle its type, or is null.
    """
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    wanted = await read_body(request, ScheduleRequest)
    spec = wanted.spec(wall_ms())
    await enabled_tenant(state, tenant_id)
    before = await _found(state, tenant_id, wanted.id)
    if before is not None and before.app is not None:
        told = f"application {before.app} declares schedule {wanted.id}: change it in its code"
        raise Refusal(409, "schedule-declared", told)
    await refuse_misfit(state, spec.job, spec.input)
    body = SetSchedule(wanted.id, spec, wanted.paused, wanted.note, SUBMITTED_BY)

    def is_set(row: ScheduleRow | None) -> bool:
        return row is not None and row.spec == spec and wanted.paused in (None, row.paused)

    row = await _run(state, tenant_id, body, is_set)
    doubt = await state.query(lambda db: doubt_about(db, state.topology, spec.job))
    answer = {**_json(row), "warning": doubt}
    return web.json_response(answer, status=201 if before is None else 200)


@routes.get(SCHEDULE)
async def get_schedule(request: web.Request) -> web.Response:
    """Show a schedule with its next five times."""
    state, row = request.app[STATE], await _known(request)
    return web.json_response(await state.query(lambda db: schedules.shown_schedule(db, row)))


@routes.post(SCHEDULE + "/pause")
async def pause_schedule(request: web.Request) -> web.Response:
    """Stop a schedule: times that come until it is resumed make no job."""
    return await _pause(request, pause=True)


@routes.post(SCHEDULE + "/resume")
async def resume_schedule(request: web.Request) -> web.Response:
    """Let a schedule go on with its next time."""
    return await _pause(request, pause=False)


@routes.delete(SCHEDULE)
async def delete_schedule(request: web.Request) -> web.Response:
    """Remove a schedule; its jobs stay."""
    state, row = request.app[STATE], await _known(request)
    body = DeleteSchedule(row.schedule_id, SUBMITTED_BY)
    await _run(state, row.tenant_id, body, lambda found: found is None)
    return web.json_response({"tenant_id": row.tenant_id, "id": row.schedule_id, "removed": True})


async def _pause(request: web.Request, *, pause: bool) -> web.Response:
    state, row = request.app[STATE], await _known(request)
    wanted = await read_body(request, NoteRequest)
    body = PauseSchedule(row.schedule_id, pause, wanted.note.strip(), SUBMITTED_BY)

    def is_done(found: ScheduleRow | None) -> bool:
        return found is not None and found.paused == pause

    return web.json_response(_json(await _run(state, row.tenant_id, body, is_done)))


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


async def _known(request: web.Request) -> ScheduleRow:
    tenant_id, id_ = request.match_info["tenant_id"], request.match_info["schedule_id"]
    row = await _found(request.app[STATE], tenant_id, id_)
    if row is None:
        where = f"GET /v1/tenants/{tenant_id}/schedules"
        raise unknown("schedule", id_, f"compare the id with {where}")
    return row


async def _found(state: AppState, tenant_id: str, schedule_id: str) -> ScheduleRow | None:
    return await state.query(lambda db: schedules.schedule(db, tenant_id, schedule_id))


def _json(row: ScheduleRow | None) -> Json:
    return {} if row is None else schedule_json(row)


def _ms(moment: str | None) -> int | None:
    return None if moment is None else milliseconds(moment)
