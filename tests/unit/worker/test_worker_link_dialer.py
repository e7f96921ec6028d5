"""The dialer against a small server: connections, their ends, tokens and names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from support.certificates import self_signed, server_tls
from support.conditions import PATIENCE_SECONDS
from support.linked_worker import LinkedWorker

from streams.errors import ConfigError
from streams.serde.link import frames
from streams.serde.link.messages import VERSION, FromWorker, Owned, Welcome
from streams.worker.link import addresses
from streams.worker.link.addresses import Address
from streams.worker.link.dialer import Dialer

WELCOME = Welcome(VERSION, "w1/boot", "one", 4, (0,), 5.0, 30.0, 5.0)


class Server:
    """An owner's socket. Each connection is welcomed at its hello, unless `refuses`."""

    def __init__(self) -> None:
        self.said: list[FromWorker] = []
        self.frames = 0
        self.tokens: list[str | None] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.refuses = False
        self.port = 0
        self._news = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization"))
        self._news.set()
        if self.refuses:
            return web.Response(status=401)
        socket = web.WebSocketResponse(max_msg_size=frames.MAX_FRAME_BYTES)
        await socket.prepare(request)
        self.sockets.append(socket)
        async for message in socket:
            assert message.type in (WSMsgType.TEXT, WSMsgType.BINARY)
            read = frames.from_worker(message.data)
            self.frames += 1
            self.said += read
            self._news.set()
            if type(read[0]).__name__ == "Hello":
                await socket.send_bytes(frames.frame([WELCOME]))
        return socket

    async def until(self, condition) -> None:  # type: ignore[no-untyped-def]
        """Wait for something to have been said."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def kinds(self) -> list[str]:
        return [type(each).__name__ for each in self.said]


@asynccontextmanager
async def serving(pem: Path | None = None) -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_get("/v1/link", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_tls(pem) if pem else None)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def dialing(
    server: Server, worker: LinkedWorker, token: str | None, ca_file: Path | None = None
) -> AsyncIterator[None]:
    place = "http://127.0.0.1" if ca_file is None else "https://localhost"
    places = addresses.addresses([f"{place}:{server.port}"])
    dialer = Dialer(places, lambda: token, ca_file)
    dialer.start(worker.link, worker.failures.append)
    try:
        yield
    finally:
        await asyncio.to_thread(dialer.close)


async def test_a_worker_dials_with_its_token_and_says_who_it_is() -> None:
    worker = LinkedWorker()
    async with serving() as server, dialing(server, worker, "secret"):
        await server.until(lambda: "Order" in server.kinds())
        assert server.tokens == ["Bearer secret"]
        assert server.kinds() == ["Hello", "Beat", "Order"]
        assert server.frames == 2  # what is said in one turn shares a frame
    assert worker.link.readiness.why is not None


async def test_what_a_thread_posts_is_sent_and_a_large_message_comes_whole() -> None:
    worker = LinkedWorker()
    async with serving() as server, dialing(server, worker, None):
        await server.until(lambda: "Order" in server.kinds())
        for number in range(300):
            await asyncio.to_thread(worker.claim, f"{number}" + "x" * 10_000)
        await server.until(lambda: server.kinds().count("Order") == 301)
        worker.claim("y" * (2_000_000))
        await server.until(lambda: server.kinds().count("Order") == 302)
    assert server.tokens == [None]


async def test_a_broken_connection_is_made_again_and_repeats_what_is_not_acknowledged() -> None:
    worker = LinkedWorker()
    async with serving() as server, dialing(server, worker, None):
        await server.until(lambda: "Order" in server.kinds())
        worker.claim("a")
        await server.until(lambda: server.kinds().count("Order") == 2)
        server.said.clear()
        await server.sockets[0].close()
        await server.until(lambda: server.kinds().count("Order") == 2)
        assert server.kinds() == ["Hello", "Beat", "Order", "Order"]


async def test_a_refused_token_is_told_and_tried_on() -> None:
    worker = LinkedWorker()
    async with serving() as server:
        server.refuses = True
        async with dialing(server, worker, "wrong"):
            await server.until(lambda: len(server.tokens) == 2)
            assert "HTTP 401" in str(worker.link.readiness.why)
            server.refuses = False
            await server.until(lambda: "Beat" in server.kinds())


async def test_what_an_owner_says_reaches_the_link() -> None:
    worker = LinkedWorker()
    async with serving() as server, dialing(server, worker, None):
        await server.until(lambda: "Order" in server.kinds())
        await server.sockets[0].send_str(frames.frame([Owned((0, 1))]).decode())
        await server.until(lambda: server.kinds().count("Order") == 2)


def test_addresses_are_urls_or_hosts_with_a_port() -> None:
    found = addresses.addresses(["owners:8090", "https://a.example:1", "wss://b:2/v1/link"])
    assert found == (
        Address("owners", 8090, False),
        Address("a.example", 1, True),
        Address("b", 2, True),
    )
    assert [each.url for each in found][1] == "wss://a.example:1/v1/link"


@pytest.mark.parametrize("text", ["owners", "ftp://a:1", "http://a:1/else", "http://:1", "a:b"])
def test_an_address_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="TIDEGATE_LINK"):
        addresses.addresses([text])


def test_without_an_address_no_worker_starts() -> None:
    with pytest.raises(ConfigError, match="set TIDEGATE_LINK"):
        addresses.addresses([])


def test_a_missing_file_of_authorities_is_named() -> None:
    with pytest.raises(ConfigError, match="TIDEGATE_LINK_CA"):
        Dialer((), lambda: None, Path("/nowhere/ca.pem"))


def test_an_address_in_the_clear_is_not_dialed_where_tls_is_asked_for(tmp_path: Path) -> None:
    pem = self_signed(tmp_path, "localhost")
    places = addresses.addresses(["wss://a:1", "b:2"])
    with pytest.raises(ConfigError, match="ws://b:2/v1/link is in the clear"):
        Dialer(places, lambda: None, pem)


async def test_a_token_goes_to_the_owner_of_the_certificate_alone(tmp_path: Path) -> None:
    worker = LinkedWorker()
    own, other = (self_signed(tmp_path, name) for name in ("localhost", "other.example"))
    async with serving(own) as server, dialing(server, worker, "secret", own):
        await server.until(lambda: "Beat" in server.kinds())
    async with serving(other) as server, dialing(server, worker, "secret", other):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "not valid for 'localhost'" not in (worker.link.readiness.why or ""):
                await asyncio.sleep(0.01)
        assert server.tokens == []
