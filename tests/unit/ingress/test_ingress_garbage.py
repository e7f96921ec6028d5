"""No request leaves its bytes to Python's cycle collector, which the ingress seldom runs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from support.garbage import large, left_behind
from support.ingress_app import Edge, running
from support.webhooks import SilentLog, signed

TEXT = b"x" * 100_000


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running(keepalive_seconds=0.3) as found:
        yield found


def delivery(body: bytes, signature: bytes | None = None, *more: bytes) -> bytes:
    proof = signed(body)["X-Signature"].encode() if signature is None else signature
    lines = [
        b"POST /v1/hooks/acme/shop HTTP/1.1",
        b"Host: x",
        b"Content-Length: %d" % len(body),
        b"X-Signature: " + proof,
        b"Content-Type: application/json",
        b"Connection: close",
        *more,
    ]
    return b"\r\n".join([*lines, b"", body])


JSON = b'{"id":"e1","a":"' + TEXT + b'"}'
DELIVERIES = {
    202: delivery(JSON),
    400: delivery(JSON[:-1]),
    401: delivery(JSON, b"00"),
    413: delivery(TEXT * 20),
    415: delivery(JSON, None, b"Content-Encoding: gzip"),
    431: delivery(b"", None, b"X-A: " + TEXT[:50_000]),
    503: delivery(JSON),
}
UNREADABLE = b"\0" + TEXT


async def answered(edge: Edge, raw: bytes) -> bytes:
    """The answer's first line, once the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    writer.write(raw)
    async with asyncio.timeout(10):
        line = await reader.readline()
        writer.close()
        await edge.router.idle()
    return line


@pytest.mark.parametrize("status", DELIVERIES)
async def test_a_delivery_leaves_nothing_of_its_body(edge: Edge, status: int) -> None:
    edge.log.down = status == 503
    with left_behind() as garbage:
        line = await answered(edge, DELIVERIES[status])
    assert line.split()[1] == b"%d" % status
    assert large(garbage) == []


async def test_a_body_that_does_not_come_in_time_leaves_nothing_of_itself() -> None:
    async with running(body_seconds=0.3) as edge:
        with left_behind() as garbage:
            line = await answered(edge, delivery(JSON)[:-1])
        assert line.split()[1] == b"408"
        assert large(garbage) == []


async def test_a_delivery_that_is_not_acknowledged_in_time_leaves_nothing_of_its_body() -> None:
    async with running(sender=SilentLog(), deadline_seconds=0.2) as edge:
        with left_behind() as garbage:
            line = await answered(edge, DELIVERIES[503])
        assert line.split()[1] == b"503"
        assert large(garbage) == []


async def test_bytes_that_cannot_be_read_are_not_kept(edge: Edge) -> None:
    with left_behind() as garbage:
        line = await answered(edge, UNREADABLE)
    assert line.split()[1] == b"400"
    assert large(garbage) == []


async def test_a_sender_that_hangs_up_leaves_nothing_of_what_it_sent(edge: Edge) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    raw = delivery(JSON, None, b"Expect: 100-continue")
    with left_behind() as garbage:
        writer.write(raw[:-60_000])
        async with asyncio.timeout(10):
            await reader.readuntil(b"100 Continue\r\n\r\n")
            writer.close()
            await edge.router.idle()
            del reader, writer
    assert large(garbage) == []


async def test_a_refusal_that_is_held_back_holds_no_body() -> None:
    size, refused = len(JSON) + 1, asyncio.Event()

    def wait(tenant_id: str) -> float:
        refused.set()
        return 60.0

    async with running(wait=wait) as edge:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(delivery(JSON + b" "))
        async with asyncio.timeout(10):
            await refused.wait()
        assert size not in large(gc.get_objects())
        assert (await reader.readline()).split()[1] == b"429"
        writer.close()
