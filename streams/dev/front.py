"""One port for all: hooks to the ingress processes in turn, everything else to the operator.

A proxy without opinions: method, path, headers and body pass through as bytes, answers stream as
they come (server-sent events too), a client that leaves ends the request behind. Hop-by-hop
headers stay here (RFC 9110, section 7.6.1). No request is ever sent twice: the next process is
asked only when no connection to the first came about.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import count

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
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from streams.dev.layout import Member
from streams.dev.readiness import unready
from streams.dev.scrape import merged_metrics
from streams.http_problem import problem

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip
_API, _HOOKS = "/v1/", "/v1/hooks/"
_RETRY_AFTER_SECONDS = 1
# Shorter than the servers': a request is not written to a connection just being closed.
_KEEP_ALIVE_SECONDS = 2.0
_LARGEST_BODY = 1 << 40  # the process behind decides
_SESSION: web.AppKey[ClientSession] = web.AppKey("session", ClientSession)


class _Ours(logging.Filter):
    """Faults of this proxy: what a client sends wrong it is told, with no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if record.exc_info else None
        return not isinstance(raised, HttpProcessingError)


_LOGGER = logging.getLogger(__name__)
_LOGGER.addFilter(_Ours())


class Front:
    """The proxy's request handlers; `members` are the processes behind it."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = tuple(members)
        self._hooks = [member for member in members if member.stage == "ingress"]
        self._rest = [member for member in members if member.stage == "operator"]
        self._turn = count()

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.cleanup_ctx.append(_client)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", "/{path:.*}", self._forward)
        return app

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        waiting = await unready({member.name: member.ready_url for member in self._members})
        if waiting:
            return web.Response(status=503, text=f"not ready: {', '.join(waiting)}\n")
        return web.Response(text="ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        text = await merged_metrics(self._members)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if not request.rel_url.raw_path.startswith("/"):
            return problem(400, "bad-request", "the request names no path: begin it with /")
        if not request.path.startswith(_API):
            return problem(404, "not-found", "hooks are at /v1/hooks/TENANT/SOURCE, the operator's "
                           "API is under /v1")  # fmt: skip
        behind = self._hooks if request.path.startswith(_HOOKS) else self._rest
        first = next(self._turn) % len(behind)
        for member in (*behind[first:], *behind[:first]):
            try:
                answer = await _send(request, member)
            except ClientConnectorError:
                continue
            except (ClientError, ConnectionError, TimeoutError):
                return _unknown_outcome(member)
            return await _pass_on(request, answer)
        return _nobody(behind)


async def _send(request: web.Request, member: Member) -> ClientResponse:
    return await request.app[_SESSION].request(
        request.method,
        URL(member.url + request.rel_url.raw_path_qs, encoded=True),
        headers=_end_to_end(request.headers),
        data=request.content if request.can_read_body else None,
        allow_redirects=False,
    )


async def _pass_on(request: web.Request, answer: ClientResponse) -> web.StreamResponse:
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


def _nobody(behind: Iterable[Member]) -> web.Response:
    stage = next(iter(behind)).stage
    return problem(
        503, "unavailable", f"no {stage} process takes connections now: try again",
        headers={"Retry-After": str(_RETRY_AFTER_SECONDS)},
    )  # fmt: skip


def _unknown_outcome(member: Member) -> web.Response:
    return problem(
        502, "bad-gateway",
        f"{member.name} ended before it answered; the request may have been carried out: "
        "send it again, the same event gets the same job",
        headers={"Retry-After": str(_RETRY_AFTER_SECONDS)},
    )  # fmt: skip


async def _client(app: web.Application) -> AsyncIterator[None]:
    session = ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
        timeout=ClientTimeout(total=None, connect=5.0),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )
    app[_SESSION] = session
    yield
    await session.close()


async def serve(front: Front, listener: socket.socket) -> web.AppRunner:
    """Serve on a bound socket until the runner's `cleanup`."""
    runner = web.AppRunner(
        front.application(), access_log=None, handler_cancellation=True, shutdown_timeout=2.0,
        logger=_LOGGER,
    )  # fmt: skip
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner
