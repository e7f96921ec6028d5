"""An ingress over real HTTP, with its log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import nacl.signing
import orjson
from aiohttp import web

from ingress.http.connection import Listener
from ingress.http.router import Elsewhere, Router
from ingress.receive.event_writer import EventWriter
from ingress.receive.key_maker import KeyMaker
from ingress.receive.quarantine import Quarantine
from ingress.receive.receiver import Receiver
from ingress.receive.rejections import Rejections
from ingress.tenants.references import References
from ingress.tenants.sources import SourceTable
from streams.tenants.source_keys import Reference
from support.webhooks import VAULT, MemoryLog, source, tenant, topology, zendesk_signed

DISCORD_SIGNER = nacl.signing.SigningKey(b"\x07" * 32)
DISCORD = DISCORD_SIGNER.verify_key.encode().hex().encode()


class Sources:
    def __init__(self) -> None:
        self.ready = True
        self.table = SourceTable(VAULT, References())
        for tenant_id in ("acme", "bolt"):
            self.table.apply(*source(tenant_id, "zendesk", "zendesk"))
            self.table.apply(*source(tenant_id, "shop", "hmac-sha256"))
        self.table.apply(*source("acme", "rotated", "hmac-sha256", [b"new", b"old"]))
        unmounted = Reference("file:/not/mounted/here")
        self.table.apply(*source("acme", "unmounted", "hmac-sha256", [unmounted]))
        self.table.apply(*source("acme", "slack", "slack", [b"slack"]))
        self.table.apply(*source("acme", "discord", "discord", [DISCORD]))
        self.table.apply(*source("acme", "twilio", "twilio", [b"twilio"]))
        self.table.apply(*source("acme", "svix", "standard-webhooks", [b"whsec_c3ZpeA=="]))
        self.table.apply(*tenant("gone", disabled=True))
        self.table.apply(*source("gone", "shop", "hmac-sha256"))


class Edge:
    """A running server, its log, and a client."""

    def __init__(self, **options: Any) -> None:
        self.sources = Sources()
        self.log = sender = options.pop("sender", None) or MemoryLog()
        writer = EventWriter(sender, KeyMaker(sender, VAULT, sender.book, 4), 4)
        wiring = options.pop("wiring", topology())
        table, quarantine = self.sources.table, Quarantine(sender, writer)
        ready = lambda: self.sources.ready  # noqa: E731
        receiver = Receiver(table, ready, writer, quarantine, wiring, **options)
        self.rejections = Rejections(sender, self.sources.table.known, 4)
        self.router = Router(receiver, ready, self.rejections)
        self.url = ""
        self.port = 0
        self.listener: Listener
        self.client: aiohttp.ClientSession

    async def post(
        self, path: str, body: bytes | AsyncIterator[bytes], headers: Mapping[str, str]
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        async with self.client.post(f"{self.url}{path}", data=body, headers=headers) as response:
            answer = orjson.loads(await response.read())
            return response.status, answer, dict(response.headers)

    async def deliver(self, tenant_id: str, body: bytes) -> tuple[int, dict[str, Any]]:
        path = f"/v1/hooks/{tenant_id}/zendesk"
        status, answer, _ = await self.post(path, body, zendesk_signed(body))
        return status, answer


@asynccontextmanager
async def running(
    keepalive_seconds: float = 15.0, elsewhere: Elsewhere | None = None, **options: Any
) -> AsyncIterator[Edge]:
    edge = Edge(**options)
    edge.listener = server = Listener(
        partial(edge.router.handle, elsewhere=elsewhere),
        edge.router.unread,
        keepalive_timeout=keepalive_seconds,
        lingering_time=0.1,
    )
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    edge.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    edge.port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as edge.client:
        try:
            yield edge
        finally:
            await runner.cleanup()
