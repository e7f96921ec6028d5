"""The socket of an owner: it welcomes each worker that says hello, and keeps what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import WSMsgType, web

from streams.serde.link import frames
from streams.serde.link.messages import VERSION, FromWorker, Welcome
from support.certificates import server_tls
from support.conditions import PATIENCE_SECONDS

WELCOME = Welcome(VERSION, "w1/boot", "one", 4, (0,), 5.0, 30.0, 5.0)


class DialedOwner:
    """An owner's socket. Each connection is welcomed at its hello, unless `refuses`."""

    def __init__(self) -> None:
        self.said: list[FromWorker] = []
        self.frames = 0
        self.tokens: list[str | None] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.refuses = False
        self.port = 0
        self._news = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization"))
        self._news.set()
        if self.refuses:
            return web.Response(status=401)
        socket = web.WebSocketResponse(max_msg_size=frames.MAX_FRAME_BYTES)
        await socket.prepare(request)
        self.sockets.append(socket)
        async for message in socket:
            assert message.type in (WSMsgType.TEXT, WSMsgType.BINARY)
            read = frames.from_worker(message.data)
            self.frames += 1
            self.said += read
            self._news.set()
            if type(read[0]).__name__ == "Hello":
                await socket.send_bytes(frames.frame([WELCOME]))
        return socket

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something to have been said."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def kinds(self) -> list[str]:
        return [type(each).__name__ for each in self.said]


@asynccontextmanager
async def serving(
    pem: Path | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[DialedOwner]:
    """An owner that listens within the block; port 0 is any free one."""
    server = DialedOwner()
    app = web.Application()
    app.router.add_get("/v1/link", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=server_tls(pem) if pem else None)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
