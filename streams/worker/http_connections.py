"""The connections of one request: what is sent on them, and their end."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace

from aiohttp import (
    AddrInfoType,
    ClientConnectionError,
    ClientSession,
    ServerDisconnectedError,
    TraceConfig,
)

from streams.worker.tool_call import ToolCall

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that do nothing (RFC 9110, section 9.2.1)."""


@dataclass(slots=True)
class Sent:
    """How far a request got. aiohttp itself would repeat some whose connection broke."""

    connections: int = 0
    redirects: int = 0
    counted: int = 0
    """How often it is counted in `ToolCall.sent`."""


class Sockets:
    """Makes sockets for aiohttp, and lets go of them."""

    def __init__(self) -> None:
        self._made: list[socket.socket] = []

    def __call__(self, place: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = place
        made = socket.socket(family, kind, protocol)
        self._made.append(made)
        return made

    def let_go(self) -> None:
        """End the connections now.

        A transport that is only closed writes first what it holds, for ever if nobody reads that.
        """
        for each in self._made:
            with suppress(OSError):  # it is closed already, or was never connected
                each.shutdown(socket.SHUT_RDWR)
        self._made.clear()


def watched(sent: Sent, call: ToolCall | None, method: str) -> TraceConfig:
    """Count what is sent, and let aiohttp send nothing twice."""

    async def dials(_: ClientSession, __: SimpleNamespace, ___: object) -> None:
        if sent.connections > sent.redirects:
            raise ServerDisconnectedError("the connection broke: the request is not repeated")
        if call is not None and call.is_over:
            raise ClientConnectionError("the effect has ended: nothing more is sent")
        if call is not None and method not in SAFE:
            # Before there is a connection: another request of the effect may fail meanwhile.
            call.sent += 1
            sent.counted += 1

    async def connected(_: ClientSession, __: SimpleNamespace, ___: object) -> None:
        sent.connections += 1

    async def redirected(_: ClientSession, __: SimpleNamespace, ___: object) -> None:
        sent.redirects += 1

    config = TraceConfig()
    config.on_connection_create_start.append(dials)
    config.on_connection_create_end.append(connected)
    config.on_request_redirect.append(redirected)
    return config
