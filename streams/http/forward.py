"""Passes a request on to a server behind this one, as a proxy without opinions.

Method, path, headers and body pass through as bytes, answers stream as they come (server-sent
events too), a client that leaves ends the request behind. Hop-by-hop headers stay here (RFC 9110,
section 7.6.1). No request is ever sent twice: the next server is asked only when no connection to
the first came about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    web,
)
from multidict import CIMultiDict
from yarl import URL

from streams.http.problem import problem

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip
_RETRY_AFTER_SECONDS = 1
# Shorter than the servers': a request is not written to a connection just being closed.
_KEEP_ALIVE_SECONDS = 2.0
_LOOK_SECONDS = 1.0
"""How soon it is noticed that a client has left: before a server that hangs they would pile up."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A server that requests are passed on to; `url` without a path."""

    name: str
    url: str


def forwarding_session() -> ClientSession:
    """The client's side of the proxy; it adds nothing to a request of its own."""
    return ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
        timeout=ClientTimeout(total=None, connect=5.0),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


async def forward(
    session: ClientSession, request: web.BaseRequest, origins: Sequence[Origin]
) -> web.StreamResponse:
    """The answer of the first origin that takes a connection; a problem of 502 or 503 otherwise.

    Raises:
        ConnectionError: the client has left.
    """
    answer = asyncio.create_task(_forward(session, request, origins))
    try:
        while not answer.done():
            await asyncio.wait({answer}, timeout=_LOOK_SECONDS)
            if not answer.done() and request.transport is None:
                raise ConnectionResetError("nobody waits for the answer")
        return answer.result()
    finally:
        answer.cancel()


async def _forward(
    session: ClientSession, request: web.BaseRequest, origins: Sequence[Origin]
) -> web.StreamResponse:
    if not request.rel_url.raw_path.startswith("/"):
        return problem(400, "bad-request", "the request names no path: begin it with /")
    for origin in origins:
        try:
            answer = await _send(session, request, origin)
        except ClientConnectorError:
            continue
        except (ClientError, ConnectionError, TimeoutError):
            return _unknown_outcome(origin)
        return await _pass_on(request, answer)
    return _nobody(origins)


async def _send(session: ClientSession, request: web.BaseRequest, origin: Origin) -> ClientResponse:
    return await session.request(
        request.method,
        URL(origin.url + request.rel_url.raw_path_qs, encoded=True),
        headers=_end_to_end(request.headers),
        data=request.content if request.can_read_body else None,
        allow_redirects=False,
    )


async def _pass_on(request: web.BaseRequest, answer: ClientResponse) -> web.StreamResponse:
    async with answer:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        response.headers.extend(_end_to_end(answer.headers))
        await response.prepare(request)
        try:
            async for piece in answer.content.iter_any():
                await response.write(piece)
        except ClientError:
            # Half an answer must not look whole: the client sees the connection break, as we did.
            if request.transport:
                request.transport.abort()
            return response
        await response.write_eof()
        return response


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    dropped = _HOP_BY_HOP | named
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )


def _nobody(origins: Sequence[Origin]) -> web.Response:
    names = ", ".join(origin.name for origin in origins)
    return problem(
        503, "unavailable", f"{names} takes no connections now: try again",
        headers={"Retry-After": str(_RETRY_AFTER_SECONDS)},
    )  # fmt: skip


def _unknown_outcome(origin: Origin) -> web.Response:
    return problem(
        502, "bad-gateway",
        f"{origin.name} ended before it answered; the request may have been carried out: "
        "send it again, the same event gets the same job",
        headers={"Retry-After": str(_RETRY_AFTER_SECONDS)},
    )  # fmt: skip
