"""Clients that trickle, do not read, hang up or send without end."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import structlog
from aiohttp import web
from prometheus_client import REGISTRY
from support.ingress_app import Edge, running
from support.raw_http import (
    BODY,
    CHUNKED,
    CLOSE,
    HOOK,
    LENGTH,
    SIGNED,
    WHOLE,
    exchange,
    problem,
    statuses,
)
from support.webhooks import SilentLog

from ingress.http import connection
from ingress.http.server import KEEPALIVE_SECONDS, LINGERING_SECONDS
from ingress.receive.body import BODY_SECONDS


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running(keepalive_seconds=0.3) as found:
        yield found


async def test_headers_that_trickle_in_do_not_hold_a_connection(edge: Edge) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    writer.write(HOOK + b"X-Slow: ")
    started = time.monotonic()

    async def trickle() -> None:
        while True:
            writer.write(b"a")
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    async with asyncio.timeout(10):
        with suppress(ConnectionResetError):  # what is sent to a closed connection resets it
            assert await reader.read() == b""
    trickling.cancel()
    assert time.monotonic() - started >= 0.25
    writer.close()


@pytest.mark.parametrize("framing", [b"Content-Length: 500000\r\n", CHUNKED])
async def test_a_body_that_trickles_in_is_a_408(framing: bytes) -> None:
    async with running(body_seconds=0.3) as edge:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(HOOK + framing + SIGNED + b"\r\n")

        async def trickle() -> None:
            while True:
                writer.write(b"1\r\na\r\n")
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        async with asyncio.timeout(10):
            answer = await reader.readuntil(b"\r\n\r\n")
            trickling.cancel()  # what is sent to a closed connection resets it, answer and all
            answer += await reader.readuntil(b"}")
        writer.close()
    assert problem(answer) == (408, "slow-body")


async def connections(edge: Edge, count: int) -> list[web.RequestHandler]:
    """The open connections, once there are so many."""
    async with asyncio.timeout(10):
        while len(edge.listener.connections) != count:
            await asyncio.sleep(0.02)
    return edge.listener.connections


@pytest.mark.parametrize("requests", [3, 100], ids=["few, then silent", "many"])
async def test_who_does_not_read_its_answers_holds_no_connection(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.3)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", edge.port))
        [ours] = await connections(edge, 1)
        assert ours.transport is not None
        ours.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * requests)
        await connections(edge, 0)


async def test_who_reads_its_answers_may_send_ahead_without_end(edge: Edge) -> None:
    request = HOOK + LENGTH + SIGNED + b"X-A: " + b"a" * 2_000 + b"\r\n\r\n" + BODY
    last = b"GET /nothing HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n"
    count = 2 * connection.MAX_AHEAD_BYTES // len(request)
    assert statuses(await exchange(edge, request * count + last)) == [
        202,
        *[200] * (count - 1),
        404,
    ]


async def test_requests_ahead_of_an_answer_are_held_up_to_a_bound() -> None:
    head = HOOK + b"".join(b"X-%d: " % n + b"a" * 8_000 + b"\r\n" for n in range(7)) + b"\r\n"
    async with running(sender=SilentLog(), deadline_seconds=60.0) as edge:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(WHOLE)
        await connections(edge, 1)
        with suppress(ConnectionError):
            for _ in range(31):
                writer.write(head)
                await writer.drain()
                await asyncio.sleep(0.01)  # a read of its own
            async with asyncio.timeout(5):
                assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("framing", [b"Content-Length: 500\r\n", CHUNKED])
async def test_a_sender_that_hangs_up_in_its_body_is_counted_and_no_fault(
    edge: Edge, framing: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted("disconnected")
    with structlog.testing.capture_logs() as told:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(HOOK + framing + SIGNED + b"Expect: 100-continue\r\n\r\n")
        async with asyncio.timeout(10):
            await reader.readuntil(b"100 Continue\r\n\r\n")
            writer.write(b"5\r\nhello\r\n")
            writer.close()
            await edge.router.idle()
    assert counted("disconnected") == before + 1
    assert told == []
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_connection_that_is_lost_right_behind_its_head_is_no_fault_either(
    edge: Edge,
) -> None:
    """It is lost before its handler begins, and aiohttp does not tell the handler."""

    def ended() -> float:
        return counted("disconnected") + counted("internal")

    before, gone = ended(), counted("disconnected")
    with structlog.testing.capture_logs() as told, socket.socket() as client:
        client.connect(("127.0.0.1", edge.port))
        [ours] = await connections(edge, 1)
        ours.data_received(HOOK + b"Content-Length: 10\r\n" + SIGNED + b"\r\n")
        asyncio.get_running_loop().call_soon(ours.connection_lost, None)
        async with asyncio.timeout(10):
            while ended() == before:
                await asyncio.sleep(0)
    assert counted("disconnected") == gone + 1
    assert told == []


def counted(outcome: str) -> float:
    labels = {"outcome": outcome}
    return REGISTRY.get_sample_value("tidegate_ingress_requests_total", labels) or 0.0


def test_nobody_holds_a_connection_for_30_seconds() -> None:
    assert KEEPALIVE_SECONDS + BODY_SECONDS + LINGERING_SECONDS < 30


async def test_a_declared_length_above_the_cap_is_refused_without_its_body(edge: Edge) -> None:
    for expect in (b"", b"Expect: 100-continue\r\n"):
        raw = HOOK + b"Content-Length: 99999999\r\n" + expect + SIGNED + b"\r\n"
        assert problem(await exchange(edge, raw)) == (413, "too-large")


async def test_an_endless_chunked_body_is_refused_at_the_cap_and_its_connection_closed(
    edge: Edge,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    writer.write(HOOK + CHUNKED + SIGNED + b"\r\n")
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    async def pour() -> None:
        while True:
            writer.write(piece)
            await writer.drain()

    pouring = asyncio.create_task(pour())
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ConnectionError):
            await pouring
    assert statuses(head) == [413]
    assert b"Connection: close" in head
    writer.close()
