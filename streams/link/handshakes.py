"""Bounds the TLS handshakes of a server, in time and in number.

asyncio gives a handshake a minute, and counts none: whoever reaches the port could hold as many
descriptors as the process may have, which it needs for its stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from aiohttp import web

SECONDS = 5.0
"""How long a handshake may take."""
MOST = 1_000
"""So many may be under way at once; a connection beyond them is ended."""


class BoundedSite(web.TCPSite):
    """A site that takes connections in the clear, and makes their handshakes itself."""

    __slots__ = ("_handshakes",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._handshakes: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; without a certificate, as a plain site does."""
        if self._ssl_context is None:
            await super().start()
            return
        await web.BaseSite.start(self)
        self._server = await asyncio.get_running_loop().create_server(
            partial(_Handshake, self._begin), self._host, self._port, backlog=self._backlog
        )

    async def stop(self) -> None:
        """Listen no more, and end the handshakes that are under way."""
        for task in list(self._handshakes):
            task.cancel()
        await super().stop()

    def _begin(self, transport: asyncio.Transport, waiting: _Handshake) -> None:
        if len(self._handshakes) >= MOST:
            transport.abort()
            return
        task = asyncio.create_task(self._shake(transport, waiting))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake(self, transport: asyncio.Transport, waiting: _Handshake) -> None:
        loop, context = asyncio.get_running_loop(), self._ssl_context
        if context is None or self._runner.server is None:
            return
        try:
            async with asyncio.timeout(SECONDS):
                secured = await loop.start_tls(transport, waiting, context, server_side=True)
        except OSError:  # ssl.SSLError is one
            transport.abort()
            return
        if secured is not None:
            waiting.give_way(secured, self._runner.server())


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is done; it keeps what comes right behind it."""

    def __init__(self, begin: Callable[[asyncio.Transport, _Handshake], None]) -> None:
        self._begin = begin
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast(asyncio.Transport, transport)
        plain.pause_reading()  # what comes is the handshake's
        self._begin(plain, self)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    def give_way(self, secured: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Let a protocol have the connection, unless it is lost."""
        if self._is_lost:
            return
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early:
            protocol.data_received(bytes(self._early))
