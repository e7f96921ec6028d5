"""The handler before Tidegate: it does its work inside the vendor's request.

It checks the signature, calls the same tools and answers 200. It cannot know that it has seen an
event already. So a vendor that loses patience, or a process that dies before the answer, makes it
all happen again.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import time
from contextlib import AsyncExitStack

import orjson
from aiohttp import web

from streams.demo.world.delivery import sign
from streams.demo.world.recorder import Recorder
from streams.demo.world.scenario import Scenario
from streams.demo.world.tools import Caller, Tools
from streams.probe_routes import served

PATIENCE_SECONDS = 1.0
"""How long the vendor waits before it gives a request up and sends it again (Zendesk: 12 s)."""

_SLOW_SECONDS = 1.5
_EVERY_SLOW = 200
_EVERY_KILLED = 100


class NaiveHandler:
    """The synchronous receiver; if `killed`, it breaks off every hundredth answer."""

    def __init__(self, scenario: Scenario, recorder: Recorder, *, killed: bool) -> None:
        self._secrets = scenario.secrets
        self._recorder = recorder
        self._killed = killed
        self._requests = 0
        self._serving = AsyncExitStack()

    async def start(self) -> str:
        """Serve on a free port of 127.0.0.1; returns the base URL."""
        app = web.Application()
        app.router.add_post("/v1/hooks/{tenant}/{source}", self._receive)
        server = served(app, "127.0.0.1", 0, shutdown_timeout=1)
        return f"http://127.0.0.1:{await self._serving.enter_async_context(server)}"

    async def stop(self) -> None:
        await self._serving.aclose()

    async def _receive(self, request: web.Request) -> web.Response:
        tenant, body = request.match_info["tenant"], await request.read()
        stamp = request.headers.get("X-Zendesk-Webhook-Signature-Timestamp", "")
        given = request.headers.get("X-Zendesk-Webhook-Signature", "")
        if not hmac.compare_digest(sign(self._secrets[tenant], stamp, body), given):
            return web.json_response({}, status=401)
        self._requests += 1
        number = self._requests
        await self._handle(tenant, body)
        if number % _EVERY_SLOW == 0:
            await asyncio.sleep(_SLOW_SECONDS)
        if self._killed and number % _EVERY_KILLED == 0 and request.transport:
            request.transport.abort()
        return web.json_response({"ok": True})

    async def _handle(self, tenant: str, body: bytes) -> None:
        ticket = orjson.loads(body)["detail"]
        if "poison" in ticket["tags"]:
            return
        run = f"naive-{self._requests}"
        async with Tools(Caller(tenant, run, run, 1, os.getpid()), self._recorder.url) as tools:
            await tools.started(time.time())
            draft = await tools.draft(ticket["id"], ticket["description"])
            await tools.send_email(
                ticket=ticket["id"], to=ticket["requester_email"], text=draft, idempotency_key=None
            )
            if "refund" in ticket["tags"]:
                await tools.refund(ticket=ticket["id"], reason=draft, idempotency_key=None)
