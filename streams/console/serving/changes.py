"""The event stream of an open page: it says `changed` when a topic that the page watches has news.

One stream serves whatever page a browser shows; htmx closes it while the page is hidden. An event's
id says how far the topics were read, so a page that comes back hears of what it missed at once.
"""

from __future__ import annotations

import asyncio
import hashlib

from aiohttp import web

from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid
from streams.api.serving.call import OPEN, STANDS, Calls
from streams.api.serving.state import STATE
from streams.console.serving.entering import SIGN_IN, enter

_LOOKED_EVERY_SECONDS = 1.0
_SILENT_SECONDS = 15.0

calls = Calls()


@calls.get("/console/changes", of=OPEN, allow_head=False)
async def changes(request: web.Request) -> web.StreamResponse:
    """Say `changed` when a topic of `of` has something new; the topics are separated by commas."""
    if await enter(request) is not None:
        raise Refusal(401, "session-over", f"sign in again at {SIGN_IN}")
    state, topics = request.app[STATE], request.query.get("of", "").split(",")
    if unknown := set(topics) - set(state.topology.topics):
        raise invalid("of", f"no such topics: {', '.join(sorted(unknown))}")
    answer = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    await answer.prepare(request)
    await _tell(request, answer, topics)
    return answer


async def _tell(request: web.Request, answer: web.StreamResponse, topics: list[str]) -> None:
    """Write events until the reader goes, or may look no more."""
    state, seen, silent = request.app[STATE], request.headers.get("Last-Event-ID"), 0.0
    while request[STANDS]() and not request.app[CLOSING].is_set():
        position = _position(state, topics)
        if position != seen:
            kind = "hello" if seen is None else "changed"
            await answer.write(f"id: {position}\nevent: {kind}\ndata: {{}}\n\n".encode())
            seen, silent = position, 0.0
        elif silent >= _SILENT_SECONDS:
            await answer.write(b": nothing new\n\n")
            silent = 0.0
        try:
            await asyncio.wait_for(request.app[CLOSING].wait(), _LOOKED_EVERY_SECONDS)
        except TimeoutError:
            silent += _LOOKED_EVERY_SECONDS


def _position(state: AppState, topics: list[str]) -> str:
    """Return what differs once a record of one of the topics was folded in."""
    places = ((topic, each) for topic in topics for each in range(state.topology.partitions))
    read = repr([state.follower.folded(place) for place in places])
    return hashlib.blake2b(read.encode(), digest_size=8).hexdigest()


CLOSING: web.AppKey[asyncio.Event] = web.AppKey("console_closing", asyncio.Event)
"""Set when the process ends: it does not wait for readers."""


async def closing(app: web.Application) -> None:
    """Make the event; at the start-up, because it belongs to the loop."""
    app[CLOSING] = asyncio.Event()


async def close(app: web.Application) -> None:
    """End the streams; at the shutdown."""
    app[CLOSING].set()
