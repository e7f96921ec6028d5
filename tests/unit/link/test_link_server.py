"""The server of a link over real sockets: a worker dials, and its frames reach the owner."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import ClientError, WSMsgType
from support.certificates import self_signed
from support.link_services import Client, InMemory, Tokens, dialed, serving
from support.linked_workers import NOW, Partitions, hello, order, spoken, to

from streams.errors import ConfigError
from streams.link import handshakes, strangers, web_socket
from streams.link import server as module
from streams.link.grant import Grant
from streams.link.listening import Listening, listening
from streams.link.peer import MOST_WAITING
from streams.link.server import LinkServer
from streams.runtime.processor import Record
from streams.serde.link.messages import Acked, Body, Done, FromOwner, Refused, Wanted, Welcome
from streams.settings import Settings

UPGRADE = (
    b"GET /v1/link HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
ADMITTED = UPGRADE + b"Authorization: Bearer t\r\n\r\n"


@pytest.fixture
def partitions() -> Partitions:
    return Partitions(0, 1)


@pytest.fixture
def services() -> InMemory:
    return InMemory()


@pytest.fixture
def server(partitions: Partitions, services: InMemory) -> Iterator[LinkServer]:
    with serving(partitions.owner, services) as running:
        yield running


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.005)


async def taken(partitions: Partitions, number: int) -> list[Record]:
    """Take so many commands, as the stage's thread would."""
    found: list[Record] = []
    async with asyncio.timeout(60):
        while len(found) < number:
            await asyncio.to_thread(partitions.owner.wait, 1.0)
            found += partitions.owner.take(NOW)
    return found


async def test_a_command_is_acknowledged_once_the_stage_has_committed_it(
    partitions: Partitions, server: LinkServer
) -> None:
    async with dialed(server.port) as worker:
        await worker.send(hello("w1"))
        welcome = await worker.next()
        assert isinstance(welcome, Welcome)
        await worker.send(order(0, 1), order(1, 1))
        records = await taken(partitions, 2)
        partitions.commit(records, to(welcome.worker_id, Wanted()))
        assert await worker.next() == Wanted()
        assert await worker.next() == Acked({0: 1, 1: 1})


async def test_requests_are_answered_beside_the_stage(
    partitions: Partitions, server: LinkServer, services: InMemory
) -> None:
    async with dialed(server.port) as worker:
        await worker.send(hello("w1"), Body(7, 0, "job_1", 1))
        await worker.until(lambda message: message == Done(7))
        (asking,) = services.answering.connections
        assert (asking.worker_id[:10], asking.grant) == ("default:w1", Grant("", "all"))
    await eventually(lambda: services.answering.ended == [asking.worker_id])
    await eventually(lambda: not partitions.owner.connected)


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_wrong_token_is_told_in_the_first_frame(server: LinkServer, token: str) -> None:
    async with dialed(server.port, token) as worker:
        refused = await worker.next()
        assert isinstance(refused, Refused)
        assert refused.reason == "token"
        assert await worker.next() is None


@pytest.mark.parametrize(("seconds", "size"), [(0.01, 0), (60, 65_536)], ids=["slow", "large"])
async def test_a_peer_without_a_token_takes_neither_time_nor_memory(
    server: LinkServer, monkeypatch: pytest.MonkeyPatch, seconds: float, size: int
) -> None:
    """It neither closes its end, nor is what it sends kept until it does."""
    monkeypatch.setattr(module, "_REFUSED_SECONDS", seconds)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    binary = b"\x82\xff" + size.to_bytes(8, "big") + bytes(4 + size)
    writer.write(UPGRADE + b"\r\n" + (binary if size else b""))
    async with asyncio.timeout(8):
        told = await reader.read()
    assert b'"refused"' in told
    writer.close()


@pytest.mark.parametrize("asked", [b"", ADMITTED], ids=["nothing", "no hello"])
async def test_a_connection_without_a_hello_is_ended(
    partitions: Partitions, monkeypatch: pytest.MonkeyPatch, asked: bytes
) -> None:
    """Descriptors of this process are for its stores."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    with serving(partitions.owner) as server:
        async with dialed(server.port) as worker:
            await worker.send(hello("w1"))
            assert isinstance(await worker.next(), Welcome)
            monkeypatch.setattr(strangers, "HELLO_SECONDS", 0.0)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(asked)
            async with asyncio.timeout(8):
                with suppress(ConnectionError):
                    await reader.read()
            writer.close()
            await worker.send(order(1, 1))
            await eventually(lambda: len(partitions.taken()) == 1)


async def test_the_newest_of_too_many_connections_without_a_hello_are_ended(
    partitions: Partitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(strangers, "HELLO_SECONDS", 600.0)
    monkeypatch.setattr(strangers, "MOST", 1)
    with serving(partitions.owner) as server:
        async with dialed(server.port) as first:
            async with dialed(server.port) as second:
                with suppress(ConnectionError):
                    assert await second.next() is None
            await first.send(hello("w1"))
            assert isinstance(await first.next(), Welcome)


@pytest.fixture
def tls_place(tmp_path: Path) -> Listening:
    return Listening("127.0.0.1", 0, self_signed(tmp_path, "127.0.0.1"))


def trusting(place: Listening) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=place.certificate)
    context.check_hostname = False
    return context


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "slow"])
async def test_a_tls_handshake_has_seconds(
    partitions: Partitions, tls_place: Listening, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """asyncio would wait for a minute."""
    monkeypatch.setattr(handshakes, "SECONDS", 0.05)
    with serving(partitions.owner, InMemory(), tls_place) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        async with asyncio.timeout(8):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_no_more_tls_handshakes_are_under_way_than_may_be(
    partitions: Partitions, tls_place: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dials meanwhile is served once one of them has ended."""
    monkeypatch.setattr(handshakes, "MOST", 2)
    monkeypatch.setattr(handshakes, "SECONDS", 600.0)
    with serving(partitions.owner, InMemory(), tls_place) as server:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(8):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        for _, each in held:
            each.transport.abort()
        async with asyncio.timeout(20):
            assert isinstance(await _welcome(server.port, trusting(tls_place)), Welcome)


async def _welcome(port: int, tls: ssl.SSLContext) -> FromOwner | None:
    while True:
        try:
            async with dialed(port, tls=tls) as worker:
                await worker.send(hello("w1"))
                return await worker.next()
        except ClientError:  # those that are gone are not forgotten yet
            await asyncio.sleep(0.01)


async def test_a_revoked_token_ends_its_connection_and_no_other(
    partitions: Partitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    access = Tokens(one=Grant("tok_1", "one"), two=Grant("tok_2", "two"))
    with serving(partitions.owner, InMemory(access)) as running:
        async with dialed(running.port, "one") as one, dialed(running.port, "two") as two:
            await one.send(hello("w1"))
            await two.send(hello("w2"))
            assert isinstance(await one.next(), Welcome)
            assert isinstance(await two.next(), Welcome)
            del access.grants["one"]
            refused = await one.next()
            assert isinstance(refused, Refused)
            assert refused.reason == "revoked"
            assert await one.next() is None
            await two.send(Body(1, 0, "j", 1))
            assert await two.next() == Done(1)


async def test_nonsense_is_refused(server: LinkServer) -> None:
    async with dialed(server.port) as worker:
        await worker.socket.send_bytes(b"\xff\x00")
        refused = await worker.next()
        assert isinstance(refused, Refused)
        assert refused.reason == "malformed"
        assert await worker.next() is None


async def test_a_worker_that_reads_nothing_is_cut_and_the_stage_never_waits(
    partitions: Partitions, server: LinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.link.web_socket._FLUSH_SECONDS", 0.05)
    # The clock of this owner stands still.
    monkeypatch.setattr("streams.link.connections._UNREAD_SECONDS", -1)
    async with dialed(server.port) as worker:
        await worker.send(hello("w1"))
        welcome = await worker.next()
        assert isinstance(welcome, Welcome)
        partitions.owner.take(NOW)
        large = to(welcome.worker_id, Refused("malformed", "x" * 1_000_000))
        for _ in range(60):
            partitions.commit([], large)
        await eventually(lambda: not partitions.owner.connected)
        await eventually(lambda: not server._connections)


async def test_a_flood_is_not_read_while_the_stage_is_busy(
    partitions: Partitions, server: LinkServer
) -> None:
    async with dialed(server.port) as worker:
        await worker.send(hello("w1"))
        await worker.next()
        sending = asyncio.create_task(_flood(worker))
        (connection,) = server._connections
        await eventually(lambda: connection._peer.full)
        found = await taken(partitions, 20_000)
        numbers = [spoken(record)[2] for record in found]
        assert numbers == list(range(20_000))
        await sending


async def test_a_worker_that_is_not_read_gets_signs_of_life(
    partitions: Partitions, server: LinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pings wait, too: it would take the owner for dead, and send everything again."""
    monkeypatch.setattr(web_socket, "SIGN_SECONDS", 0.01)
    async with dialed(server.port, autoping=False) as worker:
        await worker.send(hello(), *(order(0, number) for number in range(MOST_WAITING)))
        async with asyncio.timeout(10):
            while (await worker.socket.receive()).type is not WSMsgType.PONG:
                continue
        await eventually(lambda: len(partitions.taken()) == MOST_WAITING)
        await worker.send(order(1, 1))
        await eventually(lambda: len(partitions.taken()) == 1)


async def _flood(worker: Client) -> None:
    for first in range(0, 20_000, 50):
        await worker.send(*(order(0, number) for number in range(first, first + 50)))


async def test_large_answers_wait_for_room(partitions: Partitions, server: LinkServer) -> None:
    async with dialed(server.port) as worker:
        await worker.send(hello("w1"), Body(1, 0, "j", 1))
        await worker.until(lambda message: message == Done(1))
        (connection,) = server._connections
        for _ in range(3):
            connection.send(Refused("malformed", "x" * 500_000))
        future = asyncio.run_coroutine_threadsafe(connection.room(), connection._loop)
        for _ in range(3):
            await worker.next()
        await asyncio.wrap_future(future)


async def test_the_end_of_the_process_ends_connections_and_services(
    partitions: Partitions, services: InMemory
) -> None:
    with serving(partitions.owner, services) as running:
        async with dialed(running.port) as worker:
            await worker.send(hello("w1"))
            await worker.next()
            await asyncio.to_thread(running.stop)
            assert await worker.next() is None
    assert services.calls[:3] == ["start", "close", "stop"]
    assert services.answering.ended != []


async def test_a_place_that_is_taken_is_told(partitions: Partitions, server: LinkServer) -> None:
    taken_place = Listening("127.0.0.1", server.port)
    other = LinkServer(Partitions().owner, lambda _: InMemory(), taken_place)
    with pytest.raises(ConfigError, match=str(server.port)):
        other.start(lambda _: None)
    other.stop()


async def test_the_link_is_served_over_tls(partitions: Partitions, tls_place: Listening) -> None:
    with serving(partitions.owner, InMemory(), tls_place) as running:
        async with dialed(running.port, tls=trusting(tls_place)) as worker:
            await worker.send(hello("w1"))
            assert isinstance(await worker.next(), Welcome)


def test_a_certificate_that_cannot_be_read_names_its_setting(
    partitions: Partitions, tmp_path: Path
) -> None:
    place = Listening("127.0.0.1", 0, tmp_path / "none.pem")
    under_test = LinkServer(partitions.owner, lambda _: InMemory(), place)
    with pytest.raises(ConfigError, match="TIDEGATE_LINK_CERT"):
        under_test.start(lambda _: None)
    under_test.stop()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:8090", ("0.0.0.0", 8090)),
        ("[::1]:0", ("::1", 0)),
        ("", None),
        (None, None),
    ],
)
def test_where_to_listen(text: str | None, expected: tuple[str, int] | None) -> None:
    found = listening(Settings(link_listen=text))
    assert (found and (found.host, found.port)) == expected


@pytest.mark.parametrize("text", ["8090", "host", "host:port", "ws://host:1", "host:99999", ":80"])
def test_a_malformed_place_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="TIDEGATE_LINK_LISTEN"):
        listening(Settings(link_listen=text))
