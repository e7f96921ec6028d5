"""The tool that the application's effects call: it counts its calls, by their keys."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web


class Tool:
    """While `gate` is closed, calls wait; a call of `failing` is answered by 500."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False
        self._runner: web.AppRunner | None = None
        self.url = ""

    @property
    def keys(self) -> list[str]:
        """The idempotency keys of the calls, in order."""
        return [key for key, _ in self.calls]

    async def open(self) -> None:
        app = web.Application()
        app.router.add_post("/", self._called)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def close(self) -> None:
        self.gate.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _called(self, request: web.Request) -> web.Response:
        self.calls.append((request.headers.get("Idempotency-Key", ""), await request.json()))
        number = len(self.calls)
        await self.gate.wait()
        if self.failing:
            return web.json_response({}, status=500)
        return web.json_response({"call": number})
