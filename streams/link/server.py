"""Listens for workers at `/v1/link`, in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Protocol

import structlog
from aiohttp import web

from streams.link.access import NotAdmitted
from streams.link.grant import Grant
from streams.link.handshakes import BoundedSite
from streams.link.listening import Listening
from streams.link.owner import Owner
from streams.link.requests import Answers
from streams.link.strangers import Strangers
from streams.link.web_socket import WebSocket
from streams.probe_routes import running
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread
from streams.serde.link import frames
from streams.serde.link.messages import Refused
from streams.served_tls import served_tls
from streams.state.overlay import Overlay

log = structlog.get_logger(__name__)

PATH = "/v1/link"
_LOOK_SECONDS = 0.5
"""How often it looks for revoked tokens and silent connections."""
_END_SECONDS = 5.0
_REFUSED_SECONDS = 1.0
"""How long a peer that is not admitted may take to close its connection."""
_REFUSED_BYTES = 1024
"""The largest frame of such a peer."""
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

    def opened(self, partition: int, stores: Mapping[str, Overlay]) -> None:
        """See `LinkService.opened`."""

    def closing(self, partition: int) -> None:
        """See `LinkService.closing`."""

    async def keep_up(self) -> None:
        """Do what comes up again and again, in the server's loop, until this is cancelled."""

    async def close(self) -> None:
        """End what belongs to the server's loop, in that loop."""

    def stop(self) -> None:
        """End the rest."""


MakeServices = Callable[[Callable[[Exception], None]], Services]


class LinkServer:
    """A `LinkService`: the server of one owner; `port` is that of its socket, once started.

    `make_services` gets what to call if they fail.
    """

    def __init__(self, owner: Owner, make_services: MakeServices, place: Listening) -> None:
        self.link = owner
        self.port = 0
        self._make_services = make_services
        self._services: Services | None = None
        self._place = place
        self._connections: set[WebSocket] = set()
        self._strangers = Strangers(boot_seconds)
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

        services = self._services = self._make_services(failed)
        services.start()
        self._thread = DaemonThread("link", lambda: asyncio.run(self._run(services)), ended)
        self._thread.start()
        self.port = self._bound.result()

    def opened(self, partition: int, stores: Mapping[str, Overlay]) -> None:
        if self._services is not None:
            self._services.opened(partition, stores)

    def closing(self, partition: int) -> None:
        if self._services is not None:
            self._services.closing(partition)

    def stop(self) -> None:
        """End every connection and the thread; see `LinkService.stop`."""
        self.link.close()
        with suppress(RuntimeError):  # its loop has ended
            self._end()
        if self._thread is not None:
            self._thread.stop(_END_SECONDS)
        if self._services is not None:
            self._services.stop()

    async def _run(self, services: Services) -> None:
        app, place = web.Application(), self._place
        app.router.add_get(PATH, partial(self._connect, services))
        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        self._end = partial(loop.call_soon_threadsafe, ending.set)
        keeping_up = asyncio.create_task(services.keep_up())
        tls = served_tls(place.certificate, place.key, "TIDEGATE_LINK", "link_server")
        times = {"shutdown_timeout": _LOOK_SECONDS}
        try:
            async with (
                tls as context,
                running(app, place.host, place.port, context, BoundedSite, **times) as runner,
            ):
                port = runner.addresses[0][1]
                _tell(place.host, port, encrypted=context is not None)
                self._bound.set_result(port)
                await self._watch(services.access, runner, ending)
        finally:
            self._end = lambda: None
            keeping_up.cancel()
            await services.close()

    async def _watch(self, access: Access, runner: web.AppRunner, ending: asyncio.Event) -> None:
        """Look after the connections until the server is stopped."""
        while not ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), _LOOK_SECONDS)
            self.link.check()
            self._strangers.end(self._without_hello(runner))
            for connection in list(self._connections):
                if not access.is_valid(connection.grant):
                    connection.refuse(_REVOKED)

    def _without_hello(self, runner: web.AppRunner) -> Iterator[asyncio.Transport]:
        greeted = {each.transport for each in self._connections if each.greeted}
        for connection in () if runner.server is None else runner.server.connections:
            transport = connection.transport
            if transport is not None and transport not in greeted:
                yield transport

    async def _connect(self, services: Services, request: web.Request) -> web.WebSocketResponse:
        given = request.headers.get("Authorization")
        granted = services.access.authenticate(given, request.remote)
        if isinstance(granted, NotAdmitted):
            return await _refuse(request, granted)
        socket = web.WebSocketResponse(compress=False, max_msg_size=frames.MAX_FRAME_BYTES)
        await socket.prepare(request)
        connection = WebSocket(self.link, socket, request.transport, granted)
        self._connections.add(connection)
        try:
            await connection.serve(services.answering)
        finally:
            self._connections.discard(connection)
        return socket


async def _refuse(request: web.Request, why: NotAdmitted) -> web.WebSocketResponse:
    """Say why a peer is not admitted, and keep nothing of what it sends."""
    socket = web.WebSocketResponse(
        compress=False, max_msg_size=_REFUSED_BYTES, timeout=_REFUSED_SECONDS
    )
    await socket.prepare(request)
    await socket.send_str(frames.frame([Refused("token", why.message)]).decode())
    await socket.close()
    return socket


def _tell(host: str, port: int, *, encrypted: bool) -> None:
    log.info("link listens", host=host, port=port, tls=encrypted)
    if not encrypted and not _is_loopback(host):
        log.warning(
            "the link is not encrypted: whoever can read the network sees tokens and jobs; set "
            "TIDEGATE_LINK_CERT, or end TLS at a proxy on this host"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
