"""Routes requests by path: webhooks, probes, metrics, and a problem for everything else.

On a shared port, every request that is no webhook goes to another server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from prometheus_client import Counter

from ingress.receive.answers import OUTCOME
from ingress.receive.body import ask_for_body
from ingress.receive.problems import (
    INTERNAL,
    NOT_FOUND,
    READ_ONLY,
    Problem,
    Refused,
)
from ingress.receive.receiver import Receiver
from ingress.receive.rejections import Rejections
from ingress.tenants.addressing import Addressing, by_path
from streams.telemetry import metrics_page, readiness

log = structlog.get_logger(__name__)

REQUESTS = Counter(
    "tidegate_ingress_requests_total",
    "Deliveries by outcome: accepted, duplicate, quarantined, handshake, disconnected (the sender "
    "went before its body was whole), or the problem's name",
    ["outcome"],
)
_PROBES = frozenset({"/metrics", "/healthz", "/readyz"})

Elsewhere = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers requests that are no webhooks."""


class Router:
    """Handles every request of the server, and knows how many are under way."""

    def __init__(
        self,
        receiver: Receiver,
        ready: Callable[[], bool],
        rejections: Rejections,
        address: Addressing = by_path,
    ) -> None:
        self._receiver = receiver
        self._rejections = rejections
        self._address = address
        self._ready = ready
        self._under_way = 0
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def drain(self) -> None:
        """Report not ready, and close each connection after its answer."""
        self._draining = True

    async def idle(self) -> None:
        """Return once no request is under way."""
        await self._idle.wait()

    async def handle(
        self, request: web.BaseRequest, elsewhere: Elsewhere | None = None
    ) -> web.StreamResponse:
        """The answer to any request; it raises only when the connection is lost."""
        self._under_way += 1
        self._idle.clear()
        try:
            response = _signed_off(await self._route(request, elsewhere))
            if self._draining:
                response.force_close()
            return response
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def unread(self, problem: Problem) -> web.StreamResponse:
        """The answer to a request that could not even be parsed."""
        REQUESTS.labels(problem.name).inc()
        self._rejections.note_unread(problem.name)
        return _signed_off(problem.response())

    async def _route(
        self, request: web.BaseRequest, elsewhere: Elsewhere | None
    ) -> web.StreamResponse:
        address = self._address(request)
        if address is not None:
            return await self._hook(request, *address)
        if elsewhere is not None:
            await ask_for_body(request)
            return await elsewhere(request)
        path = request.rel_url.raw_path
        if path in _PROBES:
            known = request.method in {"GET", "HEAD"}
            return self._probe(path, request) if known else READ_ONLY.response()
        return NOT_FOUND.response()

    async def _hook(self, request: web.BaseRequest, tenant_id: str, source: str) -> web.Response:
        try:
            if request.method == "POST":
                response = await self._receiver.receive(request, tenant_id, source)
            else:
                response = self._receiver.challenged(request, tenant_id, source)
        except Refused as refused:
            REQUESTS.labels(refused.problem.name).inc()
            self._rejections.note(tenant_id, source, refused.problem.name, refused.cause)
            return refused.problem.response(refused.detail)
        except ConnectionError:
            REQUESTS.labels("disconnected").inc()
            raise
        except Exception:
            log.exception("a webhook could not be handled", source=source)
            REQUESTS.labels(INTERNAL.name).inc()
            return INTERNAL.response()
        REQUESTS.labels(response[OUTCOME]).inc()
        return response

    def _probe(self, path: str, request: web.BaseRequest) -> web.Response:
        if path == "/metrics":
            body, content_type = metrics_page(request.headers.get("Accept"))
            return web.Response(body=body, headers={"Content-Type": content_type})
        if path == "/healthz":
            return web.Response(text="ok\n")
        status, text = readiness(self._ready() and not self._draining)
        return web.Response(status=status, text=text)


def _signed_off(response: web.StreamResponse) -> web.StreamResponse:
    response.headers["Server"] = "tidegate"  # aiohttp would name its versions
    return response
