"""What one public port serves beside the hooks: the operator's API, analytics, readiness, metrics.

An ingress answers the hooks itself, on the same port (`ingress/http/public_port.py`).
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence

from aiohttp import ClientSession, web

from streams.api.schemas.http import ROOTS as SCHEMAS
from streams.api.serving.pages import ROOTS as PAGES
from streams.dev.layout import Member
from streams.dev.readiness import unready
from streams.dev.scrape import merged_metrics
from streams.http.forward import Origin, forward, forwarding_session
from streams.http.problem import problem
from streams.http.server_log import SERVER_LOG
from streams.process.descriptors import allow_many
from streams.telemetry import readiness

_ANALYTICS = "/v1/analytics/"
_API = ("/v1/", "/console", *SCHEMAS, *PAGES)
_LARGEST_BODY = 1 << 40  # the process behind enforces its own limit
_SESSION: web.AppKey[ClientSession] = web.AppKey("session", ClientSession)


class Front:
    """The request handlers; `members` are the processes behind them."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = tuple(members)
        self._operators = [Origin(m.name, m.url) for m in members if m.stage == "operator"]
        self._analytics = [Origin(m.name, m.url) for m in members if m.stage == "analytics"]

    def application(self) -> web.Application:
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
        status, text = readiness(not waiting, ", ".join(waiting))
        return web.Response(status=status, text=text)

    async def _metrics(self, request: web.Request) -> web.Response:
        accept = request.headers.get("Accept")
        body, content_type = await merged_metrics(self._members, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(_ANALYTICS):
            if self._analytics:
                return await forward(request.app[_SESSION], request, self._analytics)
            return problem(
                404, "not-found", "analytics does not run: start `tidegate dev` with --analytics"
            )
        if request.path.startswith(_API):
            return await forward(request.app[_SESSION], request, self._operators)
        return problem(
            404,
            "not-found",
            "hooks are at /v1/hooks/TENANT/SOURCE, the operator's API is under /v1, and its "
            "console at /console",
        )


async def _client(app: web.Application) -> AsyncIterator[None]:
    async with forwarding_session() as session:
        app[_SESSION] = session
        yield


async def serve(front: Front, listener: socket.socket) -> web.AppRunner:
    """Serve on a bound socket until the runner's `cleanup`."""
    allow_many()
    runner = web.AppRunner(
        front.application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=2.0,
        auto_decompress=False,
        logger=SERVER_LOG,
    )
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner
