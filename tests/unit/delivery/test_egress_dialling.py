"""Requests reach checked addresses alone, under the name that was asked for."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession
from support.certificates import self_signed, server_tls
from support.posting import NameServer, loopback, to
from support.receiver import (
    OK,
    Answer,
    Receiver,
    answering,
    closing,
    hanging,
    receiving,
    resetting,
)

from streams.delivery.egress import lookup
from streams.delivery.egress.connector import DIAL, CheckedConnector, Dial
from streams.delivery.egress.policy import EgressPolicy
from streams.delivery.egress.poster import Poster
from streams.errors import ConfigError
from streams.process.daemon_thread import NoThread

NAME = "receiver.example"


def named(receiver: Receiver, name: str = NAME, scheme: str = "http") -> str:
    return f"{scheme}://{name}:{receiver.port}/hook"


def through(port: int, **settings: Any) -> EgressPolicy:
    """Nothing inside is allowed but a proxy on this machine."""
    return EgressPolicy(proxy=f"http://127.0.0.1:{port}", **settings)


@asynccontextmanager
async def tunnelling(port: int) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy whose tunnels all lead to one port of this machine; its port, and the requests."""
    heads: list[bytes] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], heads


@pytest.fixture
def no_other_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"a look-up besides the checked one: {args}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_other_lookup")
async def test_a_name_is_looked_up_once_and_the_checked_address_is_dialled() -> None:
    names = NameServer(["127.0.0.1"], ["10.0.0.1"])
    async with receiving(answering(OK)) as receiver, Poster(loopback(), names) as poster:
        for _ in range(3):
            got = await poster.post(to(named(receiver)))
            assert (got.status, got.address) == (200, "127.0.0.1")
    assert names.asked == [NAME], "an open connection needs no look-up"
    assert f"Host: {NAME}:{receiver.port}".encode() in receiver.requests[0]


async def test_a_name_that_leads_inside_at_a_later_dial_is_denied_then() -> None:
    names = NameServer(["127.0.0.1"], ["127.0.0.1", "10.0.0.1"])
    async with receiving(closing(OK)) as receiver, Poster(loopback(), names) as poster:
        assert (await poster.post(to(named(receiver)))).status == 200
        got = await poster.post(to(named(receiver)))
    assert (got.status, got.error, got.address) == (None, "denied", None)
    assert "leads to 10.0.0.1" in got.detail
    assert receiver.connections == 1


async def test_the_socket_refuses_an_address_that_no_look_up_has_checked() -> None:
    async with receiving(answering(OK)) as receiver:
        connector = CheckedConnector(
            EgressPolicy(), NameServer(["1.1.1.1"]), ssl.create_default_context()
        )
        DIAL.set(Dial())
        async with ClientSession(connector=connector) as session:
            with pytest.raises(ClientConnectorError, match="not a public address") as denied:
                await session.post(receiver.url)
    assert isinstance(denied.value.os_error, PermissionError)
    assert receiver.connections == 0


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.1/", "https://a@b.example/", "http://[::ffff:127.0.0.1]/", "http://0x7f.1/"],
)
async def test_a_url_that_the_guard_denies_is_not_requested(url: str) -> None:
    names = NameServer(["127.0.0.1"])
    async with Poster(loopback(), names) as poster:
        got = await poster.post(to(url))
    assert (got.error, got.address, names.asked) == ("denied", None, [])


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "3"},
        {"transfer-encoding": "chunked"},
        {"HOST": "b.example"},
        {"Expect": "100-continue"},
        {"X-A": "a\r\nX-B: b"},
        {"X A": "b"},
        {"X-A": "\ud800"},
    ],
)
async def test_a_header_that_changes_how_a_request_is_read_is_not_sent(
    headers: dict[str, str],
) -> None:
    async with receiving(answering(OK)) as receiver, Poster(loopback()) as poster:
        got = await poster.post(to(receiver.url, headers=headers))
    assert (got.error, receiver.connections) == ("denied", 0)


@pytest.mark.parametrize(
    "names",
    [NameServer(OSError(-2, "not known")), NameServer([])],
    ids=["no such name", "no address"],
)
async def test_a_name_without_address_is_a_failure_of_dns(names: NameServer) -> None:
    async with Poster(loopback(), names) as poster:
        got = await poster.post(to("https://a.example/"))
    assert (got.error, got.detail) == ("dns", "the name a.example has no address now")


async def test_a_look_up_that_hangs_is_cut() -> None:
    async def hangs(name: str) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with Poster(loopback(), hangs) as poster:
        got = await poster.post(to("https://a.example/", timeout=0.1))
    assert (got.error, got.detail) == ("timeout", "a.example was not resolved in time")


async def test_of_fifty_addresses_all_are_checked_and_four_are_dialled() -> None:
    dialled = [f"127.0.0.{n}" for n in range(2, 52)]  # nobody listens there
    async with receiving(answering(OK)) as receiver:
        async with Poster(loopback(), NameServer(dialled)) as poster:
            got = await poster.post(to(named(receiver)))
        assert (got.error, got.address) == ("refused", "127.0.0.5")
        async with Poster(loopback(), NameServer([*dialled[:49], "10.0.0.1"])) as poster:
            assert (await poster.post(to(named(receiver)))).error == "denied"
        async with Poster(loopback(), NameServer([*dialled[:3], "127.0.0.1"])) as poster:
            assert (await poster.post(to(named(receiver)))).status == 200


async def test_localhost_is_the_loopback_address_that_is_allowed() -> None:
    names = NameServer(["10.0.0.1"])
    async with receiving(answering(OK)) as receiver, Poster(loopback(), names) as poster:
        got = await poster.post(to(named(receiver, "hooks.localhost")))
    assert (got.status, got.address, names.asked) == (200, "127.0.0.1", [])


async def test_no_cookie_no_netrc_and_no_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {NAME} login a password b")
    monkeypatch.setenv("NETRC", os.fspath(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    names = NameServer(["127.0.0.1"])
    async with receiving(answering(cookie)) as receiver, Poster(loopback(), names) as poster:
        for _ in range(2):
            assert (await poster.post(to(named(receiver)))).status == 200
    assert b"Cookie" not in receiver.requests[1]
    assert b"Authorization" not in receiver.requests[1]


async def test_the_operator_s_proxy_may_be_inside_and_gets_the_target_by_name() -> None:
    names = NameServer(["127.0.0.1"])
    async with receiving(answering(OK)) as proxy:
        policy = EgressPolicy(allow_http=True, proxy=f"http://proxy.example:{proxy.port}")
        async with Poster(policy, names) as poster:
            got = await poster.post(to("http://a.example/hook"))
            literal = await poster.post(to("http://10.0.0.1/"))
    assert (got.status, got.address, names.asked) == (200, "127.0.0.1", ["proxy.example"])
    assert proxy.requests[0].startswith(b"POST http://a.example/hook HTTP/1.1\r\n")
    assert (literal.error, len(proxy.requests)) == ("denied", 1)


async def test_through_a_proxy_tls_ends_at_the_receiver(tmp_path: Path) -> None:
    pem = self_signed(tmp_path, NAME)
    async with (
        receiving(answering(OK), server_tls(pem)) as receiver,
        tunnelling(receiver.port) as (proxy, heads),
        Poster(through(proxy, ca_file=pem), NameServer(["10.0.0.1"])) as poster,
    ):
        for _ in range(2):
            assert (await poster.post(to(f"https://{NAME}/hook"))).status == 200
        other = await poster.post(to("https://other.example/hook"))
    assert [head.split(b"\r\n")[0] for head in heads] == [
        f"CONNECT {name}:443 HTTP/1.1".encode() for name in (NAME, "other.example")
    ]
    assert (other.error, len(receiver.requests)) == ("tls", 2)


async def test_a_proxy_without_address_is_named() -> None:
    policy = EgressPolicy(proxy="http://proxy.example:3128")
    async with Poster(policy, NameServer(OSError(-2, "not known"))) as poster:
        got = await poster.post(to("https://a.example/hook"))
    assert got.error == "proxy"
    assert got.detail == "the egress proxy's name proxy.example has no address now"


async def test_a_proxy_that_is_away_is_named_as_such() -> None:
    async with Poster(through(1)) as poster:
        got = await poster.post(to("https://a.example/hook"))
    assert (got.error, got.detail) == ("proxy", "the egress proxy gave no connection to a.example")


async def test_a_proxy_that_is_not_reached_in_time_is_named_as_such() -> None:
    async def hangs(name: str) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with Poster(EgressPolicy(proxy="http://proxy.example:3128"), hangs) as poster:
        got = await poster.post(to("https://a.example/hook", timeout=0.1))
    assert (got.error, got.detail) == ("proxy", "the egress proxy gave no connection to a.example")


@pytest.mark.parametrize(
    "answer",
    [closing(b""), resetting, answering(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")],
    ids=["closes", "resets", "no http"],
)
async def test_a_proxy_that_breaks_is_not_blamed_on_the_receiver(answer: Answer) -> None:
    async with receiving(answer) as proxy, Poster(through(proxy.port)) as poster:
        got = await poster.post(to("https://a.example/hook"))
    assert (got.error, got.detail) == ("proxy", "the egress proxy gave no connection to a.example")


@pytest.mark.parametrize("status", [403, 502, 503, 504])
async def test_a_receiver_that_the_proxy_does_not_reach_is_unreachable(status: int) -> None:
    answer = answering(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
    async with receiving(answer) as proxy, Poster(through(proxy.port)) as poster:
        got = await poster.post(to("https://a.example/hook"))
    assert (got.status, got.error) == (None, "unreachable")
    assert got.detail == (
        f"a.example cannot be reached: the egress proxy answered {status} when asked for it"
    )


async def test_a_receiver_that_the_proxy_waits_for_has_its_time() -> None:
    async with receiving(hanging(b"")) as proxy, Poster(through(proxy.port)) as poster:
        got = await poster.post(to("https://a.example/hook", timeout=0.2))
    assert (got.error, got.detail) == ("timeout", "a.example did not accept a connection in time")


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_proxy_that_wants_another_password_is_named_as_such(scheme: str) -> None:
    answer = answering(b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n")
    async with receiving(answer) as proxy, Poster(through(proxy.port, allow_http=True)) as poster:
        got = await poster.post(to(f"{scheme}://a.example/hook"))
    assert (got.status, got.error) == (None, "proxy")
    assert "correct user and password in egress_proxy" in got.detail


async def test_tls_checks_the_name_against_an_additional_authority(tmp_path: Path) -> None:
    pem = self_signed(tmp_path, NAME)
    asked: list[str | None] = []
    tls = server_tls(pem)
    tls.sni_callback = lambda _, name, __: asked.append(name)
    async with (
        receiving(answering(OK), tls) as receiver,
        Poster(loopback(ca_file=pem), NameServer(["127.0.0.1"])) as poster,
    ):
        for _ in range(2):
            got = await poster.post(to(named(receiver, scheme="https")))
            assert (got.status, receiver.connections) == (200, 1)
        other = await poster.post(to(named(receiver, "other.example", "https")))
    assert (other.status, other.error, asked) == (None, "tls", [NAME, "other.example"])
    assert "hostname mismatch" in other.detail


@pytest.mark.parametrize(("days", "known"), [(1, False), (-1, True)], ids=["unknown", "expired"])
async def test_a_wrong_certificate_is_a_failure_of_tls(
    tmp_path: Path, days: int, known: bool
) -> None:
    pem = self_signed(tmp_path, NAME, days=days)
    async with receiving(answering(OK), server_tls(pem)) as receiver:
        policy = loopback(ca_file=pem if known else None)
        async with Poster(policy, NameServer(["127.0.0.1"])) as poster:
            got = await poster.post(to(named(receiver, scheme="https")))
    assert (got.error, receiver.requests) == ("tls", [])
    assert ("has expired" if known else "self-signed") in got.detail


async def test_a_receiver_without_tls_is_a_failure_of_tls() -> None:
    async def speaks_plain_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(speaks_plain_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Poster(loopback()) as poster:
            got = await poster.post(to(f"https://127.0.0.1:{port}/"))
    assert (got.error, got.detail) == ("tls", "TLS with 127.0.0.1 failed: wrong version number")


async def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca\.pem is no file of certificates"):
        async with Poster(loopback(ca_file=path)):
            pass


class HangingServers:
    """Names of `.example` hang until `free` is set; all others are on this machine."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked: list[str] = []
        self.hanging = 0

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if name.endswith(".example"):
            self.hanging += 1
            await self.free.wait()
            self.hanging -= 1
        return ["127.0.0.1"]


async def hang(poster: Poster, count: int, names: HangingServers, tenant_id: str = "acme") -> None:
    """Give up `count` requests of a tenant, whose look-ups go on."""
    posts = [
        poster.post(to(f"http://{tenant_id}-{n}.example:8181/", timeout=1, tenant_id=tenant_id))
        for n in range(count)
    ]
    got = await asyncio.gather(*posts)
    assert {each.error for each in got} == {"timeout"}
    assert names.hanging >= count


async def test_a_name_whose_servers_hang_is_looked_up_once() -> None:
    names = HangingServers()
    async with receiving(answering(OK)) as receiver, Poster(loopback(), names) as poster:
        got = await poster.post(to(named(receiver), timeout=0.05))
        assert (got.error, got.detail) == ("timeout", f"{NAME} was not resolved in time")
        joined = asyncio.create_task(poster.post(to(named(receiver))))
        names.free.set()
        assert (await joined).status == 200
        assert names.asked == [NAME]
        await poster.post(to(f"http://{NAME}:{receiver.port + 1}/"))
    assert names.asked == [NAME] * 2, "an answer is not kept"


async def test_hanging_names_of_some_tenants_hold_up_no_look_up_of_another() -> None:
    names = HangingServers()
    async with receiving(answering(OK)) as receiver, Poster(loopback(), names) as poster:
        await hang(poster, 192, names)
        await hang(poster, 48, names, "bolt")
        got = await poster.post(to(named(receiver, "good.test"), tenant_id="good"))
        assert (got.status, names.hanging) == (200, 240)
        names.free.set()


async def test_a_wait_for_the_tenant_s_own_hanging_names_is_not_the_receiver_s_time() -> None:
    names = HangingServers()
    async with receiving(answering(OK)) as receiver, Poster(loopback(), names) as poster:
        await hang(poster, 192, names)
        waiting = asyncio.create_task(poster.post(to(named(receiver, "good.test"), timeout=0.5)))
        await hang(poster, 1, names, "bolt")  # for longer than the other's time
        assert not waiting.done()
        names.free.set()
        got = await waiting
    assert (got.status, got.error) == (200, None)
    assert got.duration_ms < 1_000


async def test_a_request_that_is_cancelled_while_it_waits_for_a_look_up_gives_its_turn_up() -> None:
    names = HangingServers()
    async with receiving(answering(OK)) as receiver, Poster(loopback(), names) as poster:
        await hang(poster, 192, names)
        url = named(receiver, "good.test")
        given_up, waiting = (asyncio.create_task(poster.post(to(url))) for _ in range(2))
        await asyncio.sleep(0)
        given_up.cancel()
        names.free.set()
        assert (await waiting).status == 200
    assert given_up.cancelled()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENOBUFS, "No buffer space available"),
        socket.gaierror(socket.EAI_MEMORY, "Memory allocation failure"),
        NoThread("can't start new thread"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_this_machine_lacks_is_not_blamed_on_the_receiver(error: Exception) -> None:
    async def fails(name: str) -> Sequence[str]:
        raise error

    async with Poster(loopback(), fails) as poster:
        got = await poster.post(to("https://a.example/"))
    assert (got.status, got.error) == (None, "exhausted")


async def test_a_machine_without_descriptors_blames_no_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async with receiving(answering(OK)) as receiver, Poster(loopback()) as poster:
        monkeypatch.setattr("streams.delivery.egress.connector.socket.socket", fails)
        got = await poster.post(to(receiver.url))
        monkeypatch.undo()
    assert got.error == "exhausted"
    assert got.detail == (
        "this machine has no descriptor, port, thread or memory left to reach 127.0.0.1"
    )


async def test_the_system_knows_addresses_of_this_machine() -> None:
    assert set(await lookup.system_lookup("localhost")) & {"127.0.0.1", "::1"}
