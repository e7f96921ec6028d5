"""A connection to an owner over a WebSocket; it lives in the dialer's event loop."""

from __future__ import annotations

import asyncio
import threading

from aiohttp import ClientWebSocketResponse, WSMsgType

from streams.serde.link import frames
from streams.worker.link.link import Link

_FRAME_BYTES = 1024 * 1024
"""About how much goes into one frame; a longer message has a frame of its own."""
_MOST_WAITING_BYTES = 64 * 1024 * 1024
"""With so much unread by the owner, the connection is ended: another one begins anew."""


class WebSocket:
    """One open socket, as a `Connection`. What is sent in one turn of the loop shares a frame."""

    def __init__(self, name: str, socket: ClientWebSocketResponse) -> None:
        self.name = name
        self.why = "the owner has closed the connection"
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._size = 0
        self._woken = asyncio.Event()
        self._ended = False

    def send(self, message: bytes) -> None:
        with self._lock:
            if self._ended:
                return
            first = not self._waiting
            self._waiting.append(message)
            self._size += len(message)
            too_much = self._size > _MOST_WAITING_BYTES
        if too_much:
            self.close("the owner reads too slowly")
        elif first:
            self._wake()

    def close(self, why: str) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended, self.why = True, why
        self._wake()

    async def serve(self, link: Link) -> None:
        """Pass on what comes until either side closes; the link is told of the end."""
        link.opened(self)
        writer = asyncio.create_task(self._write())
        try:
            async for message in self._socket:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    link.received(self, message.data)
        finally:
            self.close(self.why)
            writer.cancel()
            link.closed(self, self.why)

    async def _write(self) -> None:
        while not self._ended:
            await self._woken.wait()
            self._woken.clear()
            for frame in self._frames():
                await self._socket.send_bytes(frame)
        await self._socket.close()

    def _frames(self) -> list[bytes]:
        with self._lock:
            messages, self._waiting, self._size = self._waiting, [], 0
        found: list[bytes] = []
        together: list[bytes] = []
        size = 0
        for message in messages:
            full = size + len(message) > _FRAME_BYTES or len(together) == frames.MAX_MESSAGES
            if together and full:
                found.append(frames.joined(together))
                together, size = [], 0
            together.append(message)
            size += len(message)
        return [*found, frames.joined(together)] if together else found

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)
