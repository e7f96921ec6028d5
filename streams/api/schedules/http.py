"""Calls on a tenant's schedules: create and change, show, pause, resume, delete."""

from __future__ import annotations

from aiohttp import web

from streams.api.operator_state import SUBMITTED_BY
from streams.api.schedules import changes
from streams.api.schedules.schedule_request import NoteRequest, ScheduleRequest
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE

routes = web.RouteTableDef()

SCHEDULES = "/v1/tenants/{tenant_id}/schedules"
SCHEDULE = SCHEDULES + "/{schedule_id}"


@routes.post(SCHEDULES)
async def set_schedule(request: web.Request) -> web.Response:
    """Create a schedule, or change the one of this id; the same again changes nothing.

    `warning` says that nothing is known to handle its type, or is null.
    """
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    wanted = await read_body(request, ScheduleRequest)
    shown, is_new = await changes.set_schedule(state, tenant_id, wanted, SUBMITTED_BY)
    return web.json_response(shown, status=201 if is_new else 200)


@routes.get(SCHEDULE)
async def get_schedule(request: web.Request) -> web.Response:
    """Show a schedule with its next five times."""
    path = request.match_info
    shown = await changes.show(request.app[STATE], path["tenant_id"], path["schedule_id"])
    return web.json_response(shown)


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
    state, path = request.app[STATE], request.match_info
    gone = await changes.delete_schedule(
        state, path["tenant_id"], path["schedule_id"], SUBMITTED_BY
    )
    return web.json_response(gone)


async def _pause(request: web.Request, *, pause: bool) -> web.Response:
    state, path = request.app[STATE], request.match_info
    wanted = await read_body(request, NoteRequest)
    shown = await changes.pause_schedule(
        state, path["tenant_id"], path["schedule_id"], wanted.note, SUBMITTED_BY, pause=pause
    )
    return web.json_response(shown)
