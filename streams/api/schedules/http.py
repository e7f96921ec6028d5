"""Calls on a tenant's schedules: create and change, show, pause, resume, delete."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import CONFIGURE, OPERATE, READ
from streams.api.rows.json_values import Json
from streams.api.schedules import changes
from streams.api.schedules.schedule_request import NoteRequest, ScheduleRequest
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.conditions import Tagged
from streams.api.serving.request_body import read_body

calls = Calls()

_STATUS: dict[changes.Change, int] = {"created": 201, "changed": 200, "asked": 202}

SCHEDULES = "/v1/tenants/{tenant_id}/schedules"
SCHEDULE = SCHEDULES + "/{schedule_id}"
_TAGGED = Tagged("schedule", "schedules", "schedule_id", changes.present_tag)


@calls.post(
    SCHEDULES,
    of=TENANT_IN_PATH,
    needs=CONFIGURE,
    verb="schedule.set",
    is_keyed=True,
    body=ScheduleRequest,
    tagged=_TAGGED,
)
async def set_schedule(request: web.Request) -> web.Response:
    """Create a schedule, or change the one of this id; the same again changes nothing.

    `warning` says that nothing is known to handle its type, or is null.
    """
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    wanted = await read_body(request, ScheduleRequest)
    return _answer(*await changes.set_schedule(state, tenant_id, wanted))


@calls.get(SCHEDULE, of=TENANT_IN_PATH, needs=READ, tagged=_TAGGED)
async def get_schedule(request: web.Request) -> web.Response:
    """Show a schedule with its next five times."""
    path = request.match_info
    shown = await changes.show(state_of(request), path["tenant_id"], path["schedule_id"])
    return web.json_response(shown)


@calls.post(
    SCHEDULE + "/pause",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="schedule.pause",
    is_keyed=True,
    body=NoteRequest,
    tagged=_TAGGED,
)
async def pause_schedule(request: web.Request) -> web.Response:
    """Stop a schedule: times that come until it is resumed make no job."""
    return await _pause(request, pause=True)


@calls.post(
    SCHEDULE + "/resume",
    of=TENANT_IN_PATH,
    needs=OPERATE,
    verb="schedule.resume",
    is_keyed=True,
    body=NoteRequest,
    tagged=_TAGGED,
)
async def resume_schedule(request: web.Request) -> web.Response:
    """Let a schedule go on with its next time."""
    return await _pause(request, pause=False)


@calls.delete(SCHEDULE, of=TENANT_IN_PATH, needs=CONFIGURE, verb="schedule.remove", tagged=_TAGGED)
async def delete_schedule(request: web.Request) -> web.Response:
    """Remove a schedule; its jobs stay."""
    state, path = state_of(request), request.match_info
    ids = path["tenant_id"], path["schedule_id"]
    return _answer(*await changes.delete_schedule(state, *ids))


async def _pause(request: web.Request, *, pause: bool) -> web.Response:
    state, path = state_of(request), request.match_info
    wanted = await read_body(request, NoteRequest)
    ids = path["tenant_id"], path["schedule_id"]
    return _answer(*await changes.pause_schedule(state, *ids, wanted.note, pause=pause))


def _answer(shown: Json, change: changes.Change) -> web.Response:
    return web.json_response(shown, status=_STATUS[change])
