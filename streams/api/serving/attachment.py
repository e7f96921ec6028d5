"""Answers that are raw bodies: few bytes of them are held at once, and no longer than it takes.

A body may have 64 MiB, and stays in memory until its reader has taken it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import hdrs, web

from streams.api.refusal import Refusal
from streams.api.serving.call import PRINCIPAL
from streams.process.shared_room import SharedRoom

MOST_HELD_BYTES = 256 * 1024 * 1024
"""Of all bodies that are being read or sent."""
_SHARE = 3
"""A tenant leaves at least a quarter of the room to others."""
ROOM_SECONDS = 10.0
"""How long a call waits for room."""
LEAST_SECONDS, LEAST_A_SECOND = 30.0, 64 * 1024
"""A reader has this long, and one second more for each so many bytes."""
_PIECE_BYTES = 64 * 1024

_HEADERS = {
    "Content-Type": "application/octet-stream",
    "Content-Disposition": 'attachment; filename="payload"',
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""A stranger sent these bytes: no browser may treat them as a page."""

_ROOM = SharedRoom(MOST_HELD_BYTES, _SHARE)


async def attachment(
    request: web.Request, most: int, read: Callable[[], Awaitable[bytes]]
) -> web.StreamResponse:
    """Answer a raw body of at most so many bytes, which is read once there is room for it.

    Raises:
        Refusal: 503, too many others are being read; and what `read` raises.
    """
    held = Held(request[PRINCIPAL].turn, most)
    async with held.room():
        body = await read()
        held.shrink(len(body))
        return await _sent(request, body)


class Held:
    """The room that one body takes: the most that it can have, and then what it has."""

    def __init__(self, whose: str, size: int) -> None:
        self._whose = whose
        self._size = size

    @asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Hold the room as long as the context lasts."""
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                await _ROOM.enter(self._whose, self._size)
        except TimeoutError:
            many = "too many bodies are being read now: ask again in a few seconds"
            raise Refusal(503, "too-many-bodies", many) from None
        try:
            yield
        finally:
            _ROOM.leave(self._whose, self._size)

    def shrink(self, size: int) -> None:
        """Give back what the body does not need."""
        spare = max(0, self._size - size)
        self._size -= spare
        _ROOM.leave(self._whose, spare)


async def _sent(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send a body, and break off if its reader is too slow: it would keep others from theirs."""
    response = web.StreamResponse(headers={**_HEADERS, hdrs.CONTENT_LENGTH: str(len(body))})
    await response.prepare(request)
    pieces = range(0, 0 if request.method == hdrs.METH_HEAD else len(body), _PIECE_BYTES)
    try:
        async with asyncio.timeout(LEAST_SECONDS + len(body) / LEAST_A_SECOND):
            for begin in pieces:
                await response.write(memoryview(body)[begin : begin + _PIECE_BYTES])
            await response.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    return response
