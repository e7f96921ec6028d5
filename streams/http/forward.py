"""Forwards a request to a server behind this one, as a proxy that changes nothing else.

Method, path, headers and body pass through as bytes, and answers stream as they come (server-sent
events too). If a client leaves, the request behind is ended. Hop-by-hop headers are not forwarded
(RFC 9110, section 7.6.1). No request is ever sent twice: the next server is asked only if no
connection to the first could be made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from streams.http.problem import problem

_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
}
_RETRY_AFTER_SECONDS = 1
# It is shorter than the servers': no request is written to a connection that is being closed.
_KEEP_ALIVE_SECONDS = 2.0
_LOOK_SECONDS = 1.0
"""How soon a client's leaving is noticed: otherwise they would pile up before a hung server."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A server to which requests are forwarded; `url` has no path."""

    name: str
    url: str


def forwarding_session() -> ClientSession:
    """The proxy's client side; it adds nothing of its own to a request."""
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
    """The answer of the first origin that takes a connection, otherwise a problem of 502 or 503.

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
            # Half an answer must not look whole: break the client's connection as ours broke.
            if request.transport:
                request.transport.abort()
            return response
        await response.write_eof()
        return response


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    connection = ",".join(headers.getall("Connection", ()))
    named = {name.strip().lower() for name in connection.split(",")}
    dropped = _HOP_BY_HOP | named
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )


def _nobody(origins: Sequence[Origin]) -> web.Response:
    names = ", ".join(origin.name for origin in origins)
    return problem(
        503,
        "unavailable",
        f"{names} takes no connections now: try again",
        headers={"Retry-After": str(_RETRY_AFTER_SECONDS)},
    )


def _unknown_outcome(origin: Origin) -> web.Response:
    return problem(
        502,
        "bad-gateway",
        f"{origin.name} ended before it answered; the request may have been carried out. Send "
        "it again if it is a webhook or has an Idempotency-Key, and look first if not",
        headers={"Retry-After": str(_RETRY_AFTER_SECONDS)},
    )
