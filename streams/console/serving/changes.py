"""The event stream of an open page: it says `changed` when a topic that the page watches has news.

It says `late` when all rows are old, because Kafka is away for example, and when they are no more.

One stream serves whatever page a browser shows; htmx closes it while the page is hidden. An event's
id says how far the topics were read, and so does a page, so that its reader hears of what was read
since then at once.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from streams.api.live.http import MOST_STREAMS, STREAMS
from streams.api.refusal import Refusal, invalid
from streams.api.serving.call import OPEN, PRINCIPAL, STANDS, Calls
from streams.api.serving.state import STATE
from streams.console.serving.entering import SIGN_IN, enter
from streams.console.serving.readers import READERS, Readers

_SILENT_SECONDS = 15.0

calls = Calls()


@calls.get("/console/changes", of=OPEN, allow_head=False)
async def changes(request: web.Request) -> web.StreamResponse:
    """Say `changed` when a topic of `of` has something new; the topics are separated by commas."""
    if await enter(request) is not None:
        raise Refusal(401, "session-over", f"sign in again at {SIGN_IN}")
    topics = set(request.query.get("of", "").split(","))
    if unknown := topics - set(request.app[STATE].topology.topics):
        raise invalid("of", f"no such topics: {', '.join(sorted(unknown))}")
    room, whose = request.app[STREAMS].room, request[PRINCIPAL].turn
    if not room.try_enter(whose, 1):
        many = f"an operator has {MOST_STREAMS:,} streams, and leaves some to others: try another"
        raise Refusal(503, "too-many-streams", many)
    try:
        with request.app[READERS].reading():
            return await _told(request, topics)
    finally:
        room.leave(whose, 1)


async def _told(request: web.Request, topics: set[str]) -> web.StreamResponse:
    """Answer with a stream until its reader goes, or may look no more."""
    answer = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    try:
        await answer.prepare(request)
        await _tell(request, answer, topics)
    except ConnectionError:
        pass  # the reader has gone
    return answer


async def _tell(request: web.Request, answer: web.StreamResponse, topics: set[str]) -> None:
    readers, silent = request.app[READERS], 0.0
    was_late = request.query.get("late", "0") != "0"
    seen = request.headers.get("Last-Event-ID") or request.query.get("seen")
    while _reads(request, readers):
        pause, position = 1.0, readers.position(topics)
        if (is_late := bool(late := readers.late_seconds)) != was_late:
            await answer.write(f'event: late\ndata: {{"seconds": {late}}}\n\n'.encode())
            was_late, silent = is_late, 0.0
        if position != seen:
            kind = "hello" if seen is None else "changed"
            await answer.write(f"id: {position}\nevent: {kind}\ndata: {{}}\n\n".encode())
            seen, silent, pause = position, 0.0, readers.pause_seconds
        elif silent >= _SILENT_SECONDS:
            await answer.write(b": nothing new\n\n")
            silent = 0.0
        silent += pause
        await _rested(request, readers, pause)


async def _rested(request: web.Request, readers: Readers, seconds: float) -> None:
    """Return after so many seconds, or as soon as nobody reads any more."""
    for _ in range(max(1, round(seconds))):
        if not _reads(request, readers):
            return
        try:
            await asyncio.wait_for(readers.closing.wait(), 1.0)
        except TimeoutError:
            continue


def _reads(request: web.Request, readers: Readers) -> bool:
    """Return whether the reader of a stream is there, and may look."""
    gone = request.transport is None or request.transport.is_closing()
    return not gone and not readers.closing.is_set() and request[STANDS]()


async def begin(app: web.Application) -> None:
    """Begin; at the start-up, because what readers share belongs to the loop."""
    app[READERS] = Readers(app[STATE])


async def end(app: web.Application) -> None:
    """End the streams; at the shutdown: the process does not wait for readers."""
    app[READERS].closing.set()
