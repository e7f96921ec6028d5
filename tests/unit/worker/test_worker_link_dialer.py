"""The dialer against a small server: connections, their ends, tokens and names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.certificates import self_signed
from support.conditions import PATIENCE_SECONDS
from support.dialed_owner import DialedOwner, serving
from support.linked_worker import LinkedWorker

from streams.errors import ConfigError
from streams.serde.link import frames
from streams.serde.link.messages import Owned
from streams.worker.link import addresses
from streams.worker.link.addresses import Address
from streams.worker.link.dialer import Dialer


@asynccontextmanager
async def dialing(
    server: DialedOwner, worker: LinkedWorker, token: str | None, ca_file: Path | None = None
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
