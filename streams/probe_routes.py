"""What every process with an aiohttp server has: its port, its probes and its metrics."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from streams.errors import ConfigError
from streams.http.server_log import SERVER_LOG
from streams.process.descriptors import allow_many
from streams.telemetry import metrics_page, readiness

Page = Callable[[str | None], Awaitable[tuple[bytes, str]]]
"""The metrics and their content type; the argument is the header `Accept`."""


async def _in_thread(accept: str | None) -> tuple[bytes, str]:
    return await asyncio.to_thread(metrics_page, accept)


def probe_routes(
    ready: Callable[[], bool], why: str | None = None, page: Page = _in_thread
) -> list[web.RouteDef]:
    """`/healthz`, `/readyz` and `/metrics`; `why` is the reason if the process is not ready."""
    scraping = asyncio.Lock()

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        status, text = readiness(ready(), why)
        return web.Response(status=status, text=text)

    async def metrics(request: web.Request) -> web.Response:
        # Serve one scrape at a time: scrapes need no token, and must not use up the threads.
        async with scraping:
            body, content_type = await page(request.headers.get("Accept"))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return [
        web.get("/healthz", healthz),
        web.get("/readyz", readyz),
        web.get("/metrics", metrics),
    ]


@asynccontextmanager
async def served(
    app: web.Application,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[int]:
    """Serve an application; gives the port that it is. `options` are `AppRunner`'s.

    Raises:
        ConfigError: as `listen_on`.
    """
    async with running(app, host, port, tls, **options) as runner:
        yield runner.addresses[0][1]


@asynccontextmanager
async def running(
    app: web.Application,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    site: type[web.TCPSite] = web.TCPSite,
    **options: Any,
) -> AsyncIterator[web.AppRunner]:
    """Do as `served` does, at a site of this type; gives what runs the application."""
    runner = web.AppRunner(app, access_log=None, logger=SERVER_LOG, **options)
    await runner.setup()
    try:
        await listen_on(site(runner, host, port, ssl_context=tls), host, port)
        yield runner
    finally:
        await runner.cleanup()


async def listen_on(site: web.TCPSite, host: str, port: int) -> None:
    """Start a site, with room for many connections.

    Raises:
        ConfigError: the port is taken, or the address is not this machine's.
    """
    allow_many()
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}): "
            "choose another with --port, or end the process that holds it"
        ) from error
