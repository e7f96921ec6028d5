"""The outside world: one HTTP server that drafts, mails and refunds, and records every call."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from streams.demo.world.hold import Hold, kept
from streams.demo.world.tools import Caller
from streams.probe_routes import served

DRAFT_SECONDS = 0.08
EFFECT_SECONDS = 0.03
EFFECTS = {"/email": "email:send", "/refund": "payment:refund"}


@dataclass(frozen=True, slots=True)
class Start:
    """A handler's first line, by the handler's own clock (seconds since the epoch)."""

    caller: Caller
    at: float


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a side effect as the outside world saw it; times in seconds since the epoch.

    `sent_at` is by the caller's clock: a request that was on its way when its caller died begins
    later. `answered_at` is None for a call that was held until its caller was dead.
    """

    caller: Caller
    external_id: str
    action: str
    key: str | None
    text: str
    sent_at: float
    began_at: float
    answered_at: float | None = None


class Recorder:
    """Counts calls; `start` binds a free port of 127.0.0.1."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._kept: dict[str, dict[str, Any]] = {}
        self._holds: list[Hold[Call]] = []
        self._running: Counter[str] = Counter()
        self._serving = AsyncExitStack()
        self.starts: list[Start] = []
        self.texts: list[tuple[str, str]] = []
        self.high_water: Counter[str] = Counter()
        self.url = ""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a side effect, in the order in which they began."""
        return tuple(self._calls)

    def hold(self, action: str, tenants: Iterable[str]) -> Hold[Call]:
        """Keep the next call of `action` by one of `tenants` without an answer."""
        wanted = frozenset(tenants)
        hold = Hold[Call](lambda call: call.action == action and call.caller.tenant_id in wanted)
        self._holds.append(hold)
        return hold

    async def start(self) -> str:
        """Serve; returns the base URL."""
        app = web.Application()
        app.router.add_post("/started", self._started)
        app.router.add_post("/draft", self._draft)
        for path in EFFECTS:
            app.router.add_post(path, self._effect)
        server = served(app, "127.0.0.1", 0, shutdown_timeout=1)
        self.url = f"http://127.0.0.1:{await self._serving.enter_async_context(server)}"
        return self.url

    async def stop(self) -> None:
        for hold in self._holds:
            hold.release()
        await self._serving.aclose()

    async def _started(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.starts.append(Start(_caller(body), body["at"]))
        return web.json_response({})

    async def _draft(self, request: web.Request) -> web.Response:
        body = await request.json()
        tenant = body["tenant_id"]
        self.texts.append((tenant, body["text"]))
        with self._in_progress(tenant):
            await asyncio.sleep(DRAFT_SECONDS)
        return web.json_response({"draft": f"We are sorry. You wrote: {body['text']}"})

    async def _effect(self, request: web.Request) -> web.Response:
        body = await request.json()
        action = EFFECTS[request.path]
        key = request.headers.get("Idempotency-Key")
        call = Call(
            _caller(body), body["ticket"], action, key, body["text"], body["sent_at"], time.time()
        )
        index = len(self._calls)
        self._calls.append(call)
        with self._in_progress(call.caller.tenant_id):
            held = await kept(self._holds, call)
            await asyncio.sleep(0 if held else EFFECT_SECONDS)
        if not held:
            self._calls[index] = replace(call, answered_at=time.time())
        return web.json_response(self._answer(call, index))

    def _answer(self, call: Call, index: int) -> dict[str, Any]:
        new = {"id": f"{call.action}-{index}"}
        if call.key is None or call.action != "email:send":
            return new
        return self._kept.setdefault(call.key, new)

    @contextmanager
    def _in_progress(self, tenant: str) -> Iterator[None]:
        """Count one more call of a tenant in progress."""
        self._running[tenant] += 1
        self.high_water[tenant] = max(self.high_water[tenant], self._running[tenant])
        try:
            yield
        finally:
            self._running[tenant] -= 1


def _caller(body: Mapping[str, Any]) -> Caller:
    return Caller(
        body["tenant_id"], body["job_id"], body["run_id"], int(body["attempt"]), int(body["pid"])
    )
