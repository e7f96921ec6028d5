"""Connections whose requests cannot be parsed: answered as every other refusal is, then closed.

aiohttp answers them in plain text, shows the bytes at fault and logs each with a traceback;
anybody on the internet can make it do so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from ingress.problems import BAD_REQUEST, HEADERS_TOO_LARGE, INTERNAL, URI_TOO_LONG, Problem

log = structlog.get_logger(__name__)

MAX_URI_BYTES = 4_096
MAX_HEADER_BYTES = 8_190
MAX_HEADERS = 128

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Unread = Callable[[Problem], web.StreamResponse]
"""The answer to a request of which nothing could be read."""


class Listener(web.Server):
    """Makes a `Connection` of every accepted socket."""

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

    __slots__ = ("_unread",)

    def __init__(self, server: Listener, unread: Unread, options: dict[str, Any]) -> None:
        self._unread = unread
        super().__init__(server, loop=asyncio.get_running_loop(), **options)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what the parser refused, or to a fault that no handler met."""
        gone = isinstance(exc, ConnectionError)
        problem = problem_of(exc) if status == 400 else INTERNAL
        if problem is INTERNAL and not gone:
            log.error("a connection could not be served", exc_info=exc)
        if exc is not None:
            exc.__traceback__ = None  # its frames hold what was read, and the connection holds it
        if gone or request.writer.output_size > 0:
            raise ConnectionError("nobody waits for an answer, or it has begun") from None
        response = self._unread(problem)
        response.force_close()
        return response


def problem_of(error: BaseException | None) -> Problem:
    """What the parser found wrong, without its words: they repeat what the sender wrote."""
    if isinstance(error, LineTooLong):
        return URI_TOO_LONG if error.args[1] == MAX_URI_BYTES else HEADERS_TOO_LARGE
    if isinstance(error, BadHttpMessage) and error.message.startswith("Too many headers"):
        return HEADERS_TOO_LARGE
    return BAD_REQUEST
