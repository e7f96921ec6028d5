"""Streams of server-sent events: of one job, of some jobs, of a workflow; and their tickets."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from aiohttp import web

from streams.access.permissions import READ
from streams.api.live.access_watch import AccessWatch
from streams.api.live.hub import Hub
from streams.api.live.reader import Reader
from streams.api.live.reading import Reading
from streams.api.live.resumption import has_seen_all, kept, position_of, require_known
from streams.api.live.sender import sender
from streams.api.live.subject import MOST_JOBS, Subject, of_jobs, of_workflow
from streams.api.live.ticket_request import TicketRequest
from streams.api.live.tickets import LIFETIME_SECONDS, Tickets, digest_of_workflow
from streams.api.refusal import Refusal, invalid
from streams.api.serving.call import NAMED, PRINCIPAL, ROW, STANDS, Calls, state_of
from streams.api.serving.request_body import read_body
from streams.api.serving.session import SESSION
from streams.api.workflows.http import WORKFLOW, workflow_in
from streams.errors import TidegateError
from streams.process.shared_room import SharedRoom

log = structlog.get_logger(__name__)
calls = Calls()

OF_JOB = "/v1/jobs/{job_id}/events"
OF_WORKFLOW = WORKFLOW + "/events"
OF_JOBS = "/v1/stream"
PATHS = frozenset({OF_JOB, OF_WORKFLOW, OF_JOBS})

MOST_STREAMS = 10_000
"""Of one process: each has a connection and some memory, and is woken four times a minute."""
_SHARE = 3
"""A tenant, or a token of all tenants, leaves at least a quarter of them to others."""

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Streams:
    """What the streams of this process share; `kept_ms` is how long tokens are kept."""

    hub: Hub
    tickets: Tickets
    kept_ms: int
    watch: AccessWatch = field(default_factory=AccessWatch)
    room: SharedRoom = field(default_factory=lambda: SharedRoom(MOST_STREAMS, _SHARE))


STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)


@calls.post("/v1/stream-tickets", of=NAMED, needs=READ, verb="", body=TicketRequest)
async def make_ticket(request: web.Request) -> web.Response:
    """Give a ticket that opens one stream of these jobs, or of this workflow, without a token."""
    wanted = await read_body(request, TicketRequest)
    ticket = request.app[STREAMS].tickets.issue(wanted.digest(), request[PRINCIPAL].id)
    return web.json_response({"ticket": ticket, "expires_in": LIFETIME_SECONDS}, status=201)


@calls.get(OF_JOB, of=ROW, needs=READ, allow_head=False)
async def stream_job(request: web.Request) -> web.StreamResponse:
    """Tell what a job does, from what the reader saw last."""
    return await _stream(request, of_jobs([request.match_info["job_id"]]))


@calls.get(OF_JOBS, of=NAMED, needs=READ, allow_head=False)
async def stream_jobs(request: web.Request) -> web.StreamResponse:
    """Tell what several jobs do."""
    about = of_jobs(_named(request.query))
    if not 0 < len(about.job_ids) <= MOST_JOBS:
        raise invalid("jobs", f"name 1 to {MOST_JOBS} jobs, separated by commas")
    return await _stream(request, about)


@calls.get(OF_WORKFLOW, of=ROW, needs=READ, allow_head=False)
async def stream_workflow(request: web.Request) -> web.StreamResponse:
    """Tell what the jobs of a workflow do, and how it stands."""
    return await _stream(request, of_workflow(await workflow_in(request)))


def ticket_holder(request: web.Request, tickets: Tickets) -> str | None:
    """Return whose ticket a request for a stream has for it; the ticket is used up then."""
    resource, ticket = request.match_info.route.resource, request.query.get("ticket")
    if ticket is None or resource is None:
        return None
    match resource.canonical:
        case path if path == OF_JOB:
            digest = of_jobs([request.match_info["job_id"]]).digest
        case path if path == OF_JOBS:
            digest = of_jobs(_named(request.query)).digest
        case path if path == OF_WORKFLOW:
            tenant_id = request.query.get("tenant_id")
            digest = digest_of_workflow(request.match_info["workflow_id"], tenant_id)
        case _:
            return None
    return tickets.take(ticket, digest)


def _named(query: Mapping[str, str]) -> list[str]:
    return [job_id for job_id in query.get("jobs", "").split(",") if job_id]


async def _stream(request: web.Request, about: Subject) -> web.StreamResponse:
    room, whose = request.app[STREAMS].room, request[PRINCIPAL].turn
    if not room.try_enter(whose, 1):
        many = f"an operator has {MOST_STREAMS:,} streams, and leaves some to others: try another"
        raise Refusal(503, "too-many-streams", many)
    try:
        return await _streamed(request, about)
    finally:
        room.leave(whose, 1)


async def _streamed(request: web.Request, about: Subject) -> web.StreamResponse:
    state, streams = state_of(request), request.app[STREAMS]
    given = request.headers.get("Last-Event-ID") or request.query.get("last_event_id")
    position = position_of(given, about)
    await require_known(state, streams.hub, about, position)
    if await has_seen_all(state, about, position):
        return web.Response(status=204)
    position, first = kept(position, streams.kept_ms)
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    send = sender(response.write, request.transport)
    reading, tenants = Reading(about, position, state.topology), request[PRINCIPAL].tenants
    reader = Reader(streams.hub, reading, send, tenants)

    def end() -> None:
        reader.close()
        _break_off(request)

    try:
        with streams.watch.watching(_reader(request), request[STANDS], end):
            await reader.run(first)
    except (ConnectionError, TidegateError, Refusal, sqlite3.Error) as error:
        log.debug("a stream is broken off: its reader resumes", path=request.path, why=str(error))
        _break_off(request)
    except Exception:
        log.exception("a stream failed: its reader resumes", path=request.path)
        _break_off(request)
    return response


def _reader(request: web.Request) -> str:
    """Return who reads: one of a person's sessions may end, and the others not."""
    return request[SESSION].id if SESSION in request else request[PRINCIPAL].id


def _break_off(request: web.Request) -> None:
    """Break the connection: the status is sent, so no error can be answered any more."""
    if request.transport is not None:
        request.transport.abort()
