"""Calls on causes: show one, resolve or ignore it, open it again."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import OPERATE, READ
from streams.api.causes import decisions
from streams.api.causes.cause_request import CauseRequest, IgnoreRequest
from streams.api.causes.decision import OPEN, RESOLVED
from streams.api.serving.call import ROW, Calls, state_of
from streams.api.serving.request_body import read_body

calls = Calls()

_PATH = "/v1/causes/{id}"


@calls.get(_PATH, of=ROW, needs=READ)
async def get_cause(request: web.Request) -> web.Response:
    """Show a cause with a letter of it, and how many came in each minute of the last hour."""
    return web.json_response(await decisions.show(state_of(request), request.match_info["id"]))


@calls.post(_PATH + "/resolve", of=ROW, needs=OPERATE, verb="cause.resolve", body=CauseRequest)
async def resolve(request: web.Request) -> web.Response:
    """Say that a cause is mended; a letter that comes afterwards opens it again."""
    wanted, id_ = await read_body(request, CauseRequest), request.match_info["id"]
    shown = await decisions.decide(state_of(request), id_, RESOLVED, wanted.note)
    return web.json_response(shown)


@calls.post(_PATH + "/ignore", of=ROW, needs=OPERATE, verb="cause.ignore", body=IgnoreRequest)
async def ignore(request: web.Request) -> web.Response:
    """Leave a cause aside until a time, whatever letters come."""
    wanted, id_ = await read_body(request, IgnoreRequest), request.match_info["id"]
    shown = await decisions.ignore(state_of(request), id_, wanted.note, wanted.until)
    return web.json_response(shown)


@calls.post(_PATH + "/reopen", of=ROW, needs=OPERATE, verb="cause.reopen", body=CauseRequest)
async def reopen(request: web.Request) -> web.Response:
    """Open a cause again that was resolved or ignored."""
    wanted, id_ = await read_body(request, CauseRequest), request.match_info["id"]
    shown = await decisions.decide(state_of(request), id_, OPEN, wanted.note)
    return web.json_response(shown)
