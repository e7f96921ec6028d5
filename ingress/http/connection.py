"""Bounds what one connection may cost, and answers requests that cannot be parsed.

aiohttp bounds the size of each header and their number, but neither their sum nor how long an
answer waits to be read. It answers an unparsable request in plain text that shows the bytes at
fault, and logs a traceback for each. Anybody on the internet can cause this.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from ingress.receive.headers import MAX_HEAD_BYTES
from ingress.receive.problems import BAD_REQUEST, HEADERS_TOO_LARGE, INTERNAL, URI_TOO_LONG, Problem

log = structlog.get_logger(__name__)

MAX_URI_BYTES = 4_096
MAX_HEADER_BYTES = 8_190
MAX_HEADERS = 128
MAX_AHEAD_BYTES = 512 * 1024
"""The limit of requests that arrive before the current one is answered. A body among them takes
less, because it is read piece by piece."""
STALLED_SECONDS = 10.0
"""How long an answer waits for its sender to read it."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Unread = Callable[[Problem], web.StreamResponse]
"""The answer to a request that could not be parsed."""


class Listener(web.Server):
    """Makes a `Connection` for every accepted socket."""

    def __init__(self, handler: Handler, unread: Unread, **options: Any) -> None:
        super().__init__(handler)
        self._unread = unread
        self._options = {
            "access_log": None,
            "auto_decompress": False,
            "max_line_size": MAX_URI_BYTES,
            "max_field_size": MAX_HEADER_BYTES,
            "max_headers": MAX_HEADERS,
            **options,
        }

    def __call__(self) -> web.RequestHandler:
        return Connection(self, self._unread, self._options)


class Connection(web.RequestHandler):
    """One sender's connection; see `aiohttp.web.RequestHandler`."""

    __slots__ = ("_ahead", "_head", "_queued", "_unread")

    def __init__(self, server: Listener, unread: Unread, options: dict[str, Any]) -> None:
        self._unread = unread
        self._head = self._ahead = self._queued = 0
        super().__init__(server, loop=asyncio.get_running_loop(), **options)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the kernel cut off a sender that does not read, even after we closed (tcp(7))."""
        super().connection_made(transport)
        timeout = getattr(socket, "TCP_USER_TIMEOUT", None)  # exists on Linux only
        if timeout is not None:
            accepted = transport.get_extra_info("socket")
            with suppress(OSError):  # the socket may be closed already
                accepted.setsockopt(socket.IPPROTO_TCP, timeout, int(STALLED_SECONDS * 1000))

    def data_received(self, data: bytes) -> None:
        """Parse, then check the size of the requests that wait to be handled."""
        before, left = self._queued, len(self._messages)
        super().data_received(data)
        self._queued = len(self._messages)
        waits = self._waiter is not None and not self._queued
        self._head = self._head + len(data) if waits else 0
        if self._head > MAX_HEAD_BYTES:
            self._head = 0
            super().data_received(b"a" * MAX_HEADER_BYTES * 2)  # the parser refuses it: 431
        if left < before:  # handling of some began meanwhile, which freed their share
            self._ahead = self._ahead * left // before
        self._ahead = self._ahead + len(data) if self._queued else 0
        if self._ahead > MAX_AHEAD_BYTES:
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that the parser refused, or to an error no handler caught."""
        gone = isinstance(exc, ConnectionError)
        problem = problem_of(exc) if status == 400 else INTERNAL
        if problem is INTERNAL and not gone:
            log.error("a connection could not be served", exc_info=exc)
        if exc is not None:
            exc.__traceback__ = None  # its frames would keep the read bytes alive
        if gone or request.writer.output_size > 0:
            raise ConnectionError("nobody waits for an answer, or it has begun") from None
        response = self._unread(problem)
        response.force_close()
        return response


def problem_of(error: BaseException | None) -> Problem:
    """The problem for a parser's error, without its message, which repeats the sender's bytes."""
    if isinstance(error, LineTooLong):
        return URI_TOO_LONG if error.args[1] == MAX_URI_BYTES else HEADERS_TOO_LARGE
    if isinstance(error, BadHttpMessage) and error.message.startswith("Too many headers"):
        return HEADERS_TOO_LARGE
    return BAD_REQUEST
