"""The stage's HTTP port: figures under `/v1/analytics`, probes, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import orjson
import structlog
from aiohttp import web
from prometheus_client import REGISTRY

from streams.analytics import answers
from streams.analytics.metrics import TablesCollector
from streams.analytics.partitions import Assignment, Partitions
from streams.analytics.request import BadRequest, limit, query
from streams.errors import StoreDamaged
from streams.http.admin_token import AdminToken
from streams.http.problem import problem
from streams.probe_routes import probe_routes, served
from streams.process.wall_clock import wall_ms
from streams.settings import Settings
from streams.telemetry import metrics_page

log = structlog.get_logger(__name__)

_OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
_API = "/v1/analytics/"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Asked = Callable[[Assignment, web.Request, int], answers.Answer]
T = TypeVar("T")
_RETRY_AFTER = {"Retry-After": "2"}


class NotReady(Exception):
    """There is no answer now; the message says why, and when there may be one."""


class Api:
    """The application; it answers 503 until `partitions` is set and assigned.

    `failed` is called with an error that must end the process.

    Raises:
        ConfigError: no admin token.
    """

    def __init__(self, settings: Settings, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._token = AdminToken(settings.required_admin_token("the analytics"))
        self.partitions: Partitions | None = None

    @property
    def ready(self) -> bool:
        """Whether this process knows which partitions it counts."""
        return self.partitions is not None and self.partitions.assigned

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded])
        why = "no partition is assigned yet"
        app.add_routes(probe_routes(lambda: self.ready, why, self._metrics))
        app.router.add_get(f"{_API}summary", self._answering(_summary))
        app.router.add_get(f"{_API}series", self._answering(_series))
        app.router.add_get(f"{_API}top", self._answering(_top))
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in _OPEN and (refusal := self._token.refusal(request)) is not None:
            return refusal
        try:
            return await handler(request)
        except BadRequest as error:
            return problem(422, "invalid-request", str(error))
        except NotReady as error:
            return problem(503, "not-ready", str(error), headers=_RETRY_AFTER)
        except web.HTTPException as error:
            name = "method-not-allowed" if error.status == 405 else "route-unknown"
            return problem(error.status, name, "docs/analytics.md lists the calls")

    def _answering(self, asked: _Asked) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            with self._held() as assignment:
                return _json(await self._read(partial(asked, assignment, request, wall_ms())))

        return handle

    @contextmanager
    def _held(self) -> Iterator[Assignment]:
        if self.partitions is None or not self.partitions.assigned:
            raise NotReady("no partition is assigned yet: ask again")
        self.partitions.write()  # a thread reads what is written
        with self.partitions.held() as assignment:
            yield assignment

    async def _read(self, read: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(read)
        except StoreDamaged as error:
            self._failed(error)
            raise NotReady("a store is damaged: the next start rebuilds it") from error

    async def _metrics(self, accept: str | None) -> tuple[bytes, str]:
        with self.partitions.held() if self.partitions else nullcontext():
            return await self._read(partial(metrics_page, accept))


def _summary(assignment: Assignment, request: web.Request, now: int) -> answers.Answer:
    return answers.summary(assignment, query(request.query, now), now)


def _series(assignment: Assignment, request: web.Request, now: int) -> answers.Answer:
    return answers.series(assignment, query(request.query, now))


def _top(assignment: Assignment, request: web.Request, now: int) -> answers.Answer:
    return answers.top(
        assignment, query(request.query, now, extra=("limit",)), limit(request.query)
    )


def _json(answer: Any) -> web.Response:
    body = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return web.Response(body=body, content_type="application/json")


@asynccontextmanager
async def listening(api: Api, settings: Settings) -> AsyncIterator[int]:
    """Serve on `settings.host` and `settings.port`; gives the port that it is.

    Raises:
        ConfigError: the port is taken.
    """
    collector = TablesCollector(lambda: api.partitions)
    REGISTRY.register(collector)
    app = api.application()
    try:
        async with served(app, settings.host, settings.port, shutdown_timeout=2) as port:
            yield port
    finally:
        REGISTRY.unregister(collector)
