"""Listens for workers at `/v1/link`, in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Protocol

import structlog
from aiohttp import web

from streams.link.access import NotAdmitted
from streams.link.grant import Grant
from streams.link.listening import Listening
from streams.link.owner import Owner
from streams.link.requests import Answers
from streams.link.web_socket import WebSocket
from streams.probe_routes import served
from streams.process.daemon_thread import DaemonThread
from streams.serde.link import frames
from streams.serde.link.messages import Refused
from streams.served_tls import served_tls

log = structlog.get_logger(__name__)

PATH = "/v1/link"
_LOOK_SECONDS = 0.5
"""How often it looks for revoked tokens and silent connections."""
_END_SECONDS = 5.0
_REVOKED = Refused("revoked", "the token was revoked, or it grants something else by now")


class Access(Protocol):
    """Says what a token grants; it is asked in the server's loop."""

    def authenticate(self, authorization: str | None, remote: str | None) -> Grant | NotAdmitted:
        """Return what the header `Authorization` of a peer grants, or why it grants nothing."""

    def is_valid(self, grant: Grant) -> bool:
        """Return whether a connection may stay."""


class Services(Protocol):
    """What the server needs beside it."""

    @property
    def access(self) -> Access: ...

    @property
    def answering(self) -> Answers: ...

    def start(self) -> None:
        """Begin; this returns at once."""

    async def close(self) -> None:
        """End what belongs to the server's loop, in that loop."""

    def stop(self) -> None:
        """End the rest."""


class LinkServer:
    """A `LinkService`: the server of one owner; `port` is that of its socket, once started."""

    def __init__(self, owner: Owner, services: Services, place: Listening) -> None:
        self.link = owner
        self.port = 0
        self._services = services
        self._place = place
        self._connections: set[WebSocket] = set()
        self._bound: Future[int] = Future()
        self._thread: DaemonThread | None = None
        self._end: Callable[[], object] = lambda: None

    def start(self, failed: Callable[[Exception], None]) -> None:
        """Listen; see `LinkService.start`."""

        def ended(error: Exception) -> None:
            if self._bound.done():
                failed(error)
            else:
                self._bound.set_exception(error)

        self._services.start()
        self._thread = DaemonThread("link", lambda: asyncio.run(self._run()), ended)
        self._thread.start()
        self.port = self._bound.result()

    def stop(self) -> None:
        """End every connection and the thread; see `LinkService.stop`."""
        self.link.close()
        with suppress(RuntimeError):  # its loop has ended
            self._end()
        if self._thread is not None:
            self._thread.stop(_END_SECONDS)
        self._services.stop()

    async def _run(self) -> None:
        app, place = web.Application(), self._place
        app.router.add_get(PATH, self._connect)
        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        self._end = partial(loop.call_soon_threadsafe, ending.set)
        tls = served_tls(place.certificate, place.key, "TIDEGATE_LINK", "link_server")
        times = {"shutdown_timeout": _LOOK_SECONDS}
        try:
            async with (
                tls as context,
                served(app, place.host, place.port, context, **times) as port,
            ):
                log.info("link listens", host=place.host, port=port, tls=context is not None)
                self._bound.set_result(port)
                await self._watch(ending)
        finally:
            self._end = lambda: None
            await self._services.close()

    async def _watch(self, ending: asyncio.Event) -> None:
        """Look after the connections until the server is stopped."""
        while not ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), _LOOK_SECONDS)
            self.link.check()
            for connection in list(self._connections):
                if not self._services.access.is_valid(connection.grant):
                    connection.refuse(_REVOKED)

    async def _connect(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False, max_msg_size=frames.MAX_FRAME_BYTES)
        await socket.prepare(request)
        given = request.headers.get("Authorization")
        granted = self._services.access.authenticate(given, request.remote)
        if isinstance(granted, NotAdmitted):
            refused = Refused("token", granted.message)
            await socket.send_str(frames.frame([refused]).decode())
            await socket.close()
            return socket
        connection = WebSocket(self.link, socket, request.transport, granted)
        self._connections.add(connection)
        try:
            await connection.serve(self._services.answering)
        finally:
            self._connections.discard(connection)
        return socket
