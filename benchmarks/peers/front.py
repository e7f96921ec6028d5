"""What a team puts before a peer to take webhooks: verify, drop redeliveries, enqueue, answer.

Path, signature and answers are those of our ingress. It runs in the environment of the peer, which
has aiohttp and uvloop beside the peer's own client. `GET /unfinished` is for the benchmark alone.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

import uvloop
from aiohttp import web

SECRET = b"signs the benchmark's bodies"
"""That of `webhook_requests`, which a peer's environment cannot import."""


@dataclass(frozen=True)
class Event:
    """One webhook; `subject` says what it is about, and `jobs` how far it fans out."""

    tenant: str
    type: str
    id: str
    subject: str
    jobs: int
    body: str

    @property
    def work(self) -> str:
        """The part of the type before the dot: `plain`, `effect`, `wait` or `fan`."""
        return self.type.partition(".")[0]


class Takes(Protocol):
    """A peer's client."""

    async def open(self) -> None:
        """Connect; the front takes webhooks afterwards."""

    async def take(self, event: Event) -> bool:
        """Start the event's job, or wake the one that waits for it; False for a redelivery."""
        ...

    async def unfinished(self) -> list[str]:
        """The names of the jobs that have not ended, by the peer's own account."""
        ...


def serve(takes: Takes, port: int) -> None:
    """Take webhooks until a signal ends the process."""

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        signature = hmac.digest(SECRET, body, "sha256").hex()
        if not hmac.compare_digest(signature, request.headers.get("X-Signature", "")):
            return web.json_response({"status": "unsigned"}, status=401)
        if await takes.take(_event(request.match_info["tenant"], body)):
            return web.json_response({"status": "accepted"}, status=202)
        return web.json_response({"status": "duplicate"})

    async def unfinished(request: web.Request) -> web.Response:
        return web.json_response({"unfinished": await takes.unfinished()})

    async def opened(app: web.Application) -> AsyncIterator[None]:
        await takes.open()
        yield

    app = web.Application()
    app.cleanup_ctx.append(opened)
    app.router.add_post("/v1/hooks/{tenant}/bench", receive)
    app.router.add_get("/unfinished", unfinished)
    loop = uvloop.new_event_loop()
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, loop=loop)


def _event(tenant: str, body: bytes) -> Event:
    read: dict[str, Any] = json.loads(body)
    data = read["data"]
    return Event(tenant, read["type"], read["id"], data["id"], data.get("jobs", 0), body.decode())
