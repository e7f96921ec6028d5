"""A worker's connection as a WebSocket of the owner's server, in the loop of that server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiohttp import WSMsgType, web

from streams.link.grant import Grant
from streams.link.owner import Owner
from streams.link.requests import Answers
from streams.serde.link.messages import FromOwner, Refused

_ROOM_BYTES = 1024 * 1024
"""Pieces of large answers wait while more than this waits to be sent: leases come before them."""
_FLUSH_SECONDS = 2.0
"""How long a connection that has ended may take to read what was said before."""

SIGN_SECONDS = 1.0
"""How often a connection that is not read gives a sign of life."""


class WebSocket:
    """One connection, from the upgrade of its request to its end.

    Nothing is read while the owner has no room for more commands, so that the worker has to wait.
    """

    def __init__(
        self,
        owner: Owner,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        grant: Grant,
    ) -> None:
        self._owner = owner
        self._socket = socket
        self.transport = transport
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._is_waking = False
        self._peer = owner.opened(grant, self._wake)

    @property
    def worker_id(self) -> str:
        return self._peer.worker_id

    @property
    def greeted(self) -> bool:
        """Whether a worker has said hello that the owner takes."""
        return self._peer.hello is not None

    @property
    def grant(self) -> Grant:
        return self._peer.grant

    def send(self, message: FromOwner) -> None:
        self._owner.say(self._peer, message)

    async def room(self) -> None:
        await self._until(lambda: self._peer.outgoing.size < _ROOM_BYTES)

    async def serve(self, answers: Answers) -> None:
        """Read and write until either end is over."""
        writing = asyncio.create_task(self._write())
        others = asyncio.create_task(self._read(answers)), asyncio.create_task(self._until(_never))
        try:
            await asyncio.wait((writing, *others), return_when=asyncio.FIRST_COMPLETED)
            self._owner.closed(self._peer)
            await self._flush(writing)
        finally:
            for task in (writing, *others):
                task.cancel()
            self._owner.closed(self._peer)
            answers.closed(self)

    def refuse(self, refused: Refused) -> None:
        """End the connection, and say why."""
        self._owner.refuse(self._peer, refused)

    async def _read(self, answers: Answers) -> None:
        while not self._peer.ended:
            await self._room_to_read()
            message = await self._socket.receive()
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return
            for request in self._owner.received(self._peer, message.data):
                answers.ask(self, request)

    async def _room_to_read(self) -> None:
        """Wait until there is room for more commands; give signs of life meanwhile.

        A ping of the worker is not read either: without an answer it would dial again.
        """
        while self._peer.full and not self._peer.ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(SIGN_SECONDS):
                    await self._until(lambda: not self._peer.full)
                    return
            await self._socket.pong()

    async def _write(self) -> None:
        while frame := await self._next_frame():
            await self._socket.send_frame(frame, WSMsgType.TEXT)
            self._stir()  # there may be room again

    async def _next_frame(self) -> bytes:
        """Return the next frame to send; it is empty once the connection has ended."""
        await self._until(lambda: bool(self._peer.outgoing.size))
        return self._owner.outgoing(self._peer)

    async def _flush(self, writing: asyncio.Task[None]) -> None:
        """Send what was said before the end, and close; a worker that reads nothing is cut."""
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await writing
                await self._socket.close()
        except OSError:  # a TimeoutError is one
            if self.transport is not None:
                self.transport.abort()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, or the connection has ended."""
        while not is_so() and not self._peer.ended:
            await self._news.wait()

    def _wake(self) -> None:
        """Look again, in the loop; any thread may call this."""
        if not self._is_waking:
            self._is_waking = True
            with suppress(RuntimeError):  # the loop has ended with its server
                self._loop.call_soon_threadsafe(self._stir)

    def _stir(self) -> None:
        self._is_waking = False
        news, self._news = self._news, asyncio.Event()
        news.set()


def _never() -> bool:
    """What only the end of a connection ends."""
    return False
