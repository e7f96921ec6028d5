"""Replays of events: begin one, or count what it would do; show, pause, resume, stop."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE, READ
from streams.api.replays import course
from streams.api.replays.replay_request import ReplayEventsRequest, StopRequest
from streams.api.serving.call import NAMED, ROW, Calls, state_of
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.request_body import read_body
from streams.serde.replay_records import ReplayPaused

calls = Calls()

_PATH = "/v1/replays/{replay_id}"


@calls.post("/v1/replays", of=NAMED, needs=OPERATE, verb="replay.begin", body=ReplayEventsRequest)
async def begin(request: web.Request) -> web.Response:
    """Begin a replay, or with `dry_run` count what it would do; the same key begins it once."""
    state, key = state_of(request), idempotency_key(request)
    wanted = await read_body(request, ReplayEventsRequest)
    shown = await course.begin(state, wanted, key)
    return web.json_response(shown, status=200 if wanted.dry_run else 202)


@calls.get(_PATH, of=ROW, needs=READ)
async def show(request: web.Request) -> web.Response:
    """Show a replay: what was asked, by whom and why, and how far it is."""
    known = await course.known_replay(state_of(request), request.match_info["replay_id"])
    return web.json_response(course.shown_json(known))


@calls.post(_PATH + "/pause", of=ROW, needs=OPERATE, verb="replay.pause")
async def pause(request: web.Request) -> web.Response:
    """Let a replay stand still after the jobs that it is asking for now."""
    return await _changed(request, ReplayPaused(True))


@calls.post(_PATH + "/resume", of=ROW, needs=OPERATE, verb="replay.resume")
async def resume(request: web.Request) -> web.Response:
    """Let a replay go on from where it stands."""
    return await _changed(request, ReplayPaused(False))


@calls.delete(_PATH, of=ROW, needs=OPERATE, verb="replay.stop", body=StopRequest)
async def stop(request: web.Request) -> web.Response:
    """End a replay for good; the jobs that it has made stay."""
    state, replay_id = state_of(request), request.match_info["replay_id"]
    wanted = await read_body(request, StopRequest)
    shown, is_new = await course.stop(state, replay_id, wanted.note)
    return web.json_response(shown, status=202 if is_new else 200)


async def _changed(request: web.Request, body: ReplayPaused) -> web.Response:
    state, replay_id = state_of(request), request.match_info["replay_id"]
    return web.json_response(await course.change(state, replay_id, body), status=202)
