"""Bodies by form and size: taken, or refused before they are read."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.ingress_app import Edge, running
from support.webhooks import MemoryLog, signed, source

from streams.serde.codec import ENVELOPE
from streams.serde.sizes import CHUNK_BYTES

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, br"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "IMAGE/png"},
        {"Content-Type": "application/zip"},
    ],
    ids=str,
)
@pytest.mark.parametrize("tenant_id", ["acme", "nobody"])
async def test_a_form_that_cannot_be_read_is_refused_before_the_body_whoever_sends_it(
    edge: Edge, headers: dict[str, str], tenant_id: str
) -> None:
    """A compressed body is not inflated: what was signed is the bytes on the wire."""
    body = gzip.compress(b'{"id":"' + b"x" * 1_000_000 + b'"}')
    status, answer, _ = await edge.post(
        f"/v1/hooks/{tenant_id}/shop", body, {**signed(body), **headers}
    )
    assert (status, answer["type"]) == (415, "urn:tidegate:problem:unsupported-media")
    assert edge.log.records == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "identity"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/vnd.vendor.v2+json"},
        {"Content-Type": "nonsense"},
    ],
    ids=str,
)
async def test_json_under_an_odd_content_type_is_taken(edge: Edge, headers: dict[str, str]) -> None:
    body = b'{"id":"odd"}'
    status, _, _ = await edge.post("/v1/hooks/acme/shop", body, {**signed(body), **headers})
    assert status == 202


def padded(size: int) -> bytes:
    event = b'{"id":"e","type":"t","data":"'
    return event + b"x" * (size - len(event) - 2) + b'"}'


async def test_a_body_at_the_cap_is_stored_in_chunks_that_open_in_order(edge: Edge) -> None:
    body = padded(MIB)
    status, _, _ = await edge.post("/v1/hooks/acme/shop", body, signed(body))
    assert status == 202
    [received] = edge.log.on("events.received")
    envelope = ENVELOPE.decode(received.value)
    assert edge.log.body(envelope) == body
    ref = envelope.payload_ref
    assert (ref.size, len(ref.offsets)) == (MIB, MIB // CHUNK_BYTES)


async def test_a_byte_above_the_cap_is_refused_declared_or_streamed(edge: Edge) -> None:
    body = padded(MIB + 1)

    async def streamed() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    for sent in (body, streamed()):
        status, answer, _ = await edge.post("/v1/hooks/acme/shop", sent, signed(body))
        assert (status, answer["type"]) == (413, "urn:tidegate:problem:too-large")
    assert edge.log.records == []


async def test_a_source_has_a_cap_of_its_own_and_an_unknown_one_the_usual(edge: Edge) -> None:
    edge.sources.table.apply(*source("acme", "small", "hmac-sha256", max_body_bytes=100))
    edge.sources.table.apply(*source("acme", "large", "hmac-sha256", max_body_bytes=3 * MIB))
    statuses = {}
    for name in ("small", "large", "nothing"):
        for size in (100, 101, MIB, MIB + 1, 3 * MIB, 3 * MIB + 1):
            body = padded(size)
            status, _, _ = await edge.post(f"/v1/hooks/acme/{name}", body, signed(body))
            statuses[name, size] = status
    accepted = {place for place, status in statuses.items() if status in (200, 202)}
    assert accepted == {("small", 100), *(("large", s) for s in (100, 101, MIB, MIB + 1, 3 * MIB))}
    assert statuses["nothing", MIB] == 401
    assert statuses["nothing", MIB + 1] == 413


async def test_a_streamed_body_under_the_cap_is_taken(edge: Edge) -> None:
    body = padded(200_000)

    async def streamed() -> AsyncIterator[bytes]:
        yield body[:100_000]
        yield body[100_000:]

    status, _, _ = await edge.post("/v1/hooks/acme/shop", streamed(), signed(body))
    assert status == 202


async def test_a_sender_that_expects_100_continue_is_told_to(edge: Edge) -> None:
    body = padded(1000)
    async with edge.client.post(
        f"{edge.url}/v1/hooks/acme/shop", data=body, headers=signed(body), expect100=True
    ) as response:
        assert response.status == 202


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    async with running(body_seconds=0.05) as edge:
        arrived = asyncio.Event()

        async def stalled() -> AsyncIterator[bytes]:
            yield b"{"
            await arrived.wait()

        headers = signed(b"{}")
        status, answer, sent = await edge.post("/v1/hooks/acme/shop", stalled(), headers)
        assert (status, answer["type"]) == (408, "urn:tidegate:problem:slow-body")
        assert sent["Connection"] == "close"


class SlowLog(MemoryLog):
    """Takes records once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def send(self, *record: Any, **more: Any) -> int:
        self.asked.set()
        await self.go_on.wait()
        return await super().send(*record, **more)


async def test_bodies_beyond_what_a_process_holds_are_turned_away_whoever_sends_them() -> None:
    log, body = SlowLog(), padded(40_000)

    async def streamed() -> AsyncIterator[bytes]:
        yield body[:20_000]
        yield body[20_000:]

    async with running(sender=log, in_flight_bytes=100_000) as edge:
        first = asyncio.create_task(edge.post("/v1/hooks/acme/shop", body, signed(body)))
        await log.asked.wait()
        answers = []
        for path in ("/v1/hooks/acme/shop", "/v1/hooks/nobody/shop"):
            for sent in (body, streamed()):
                status, answer, headers = await edge.post(path, sent, signed(body))
                assert (status, answer["type"]) == (429, "urn:tidegate:problem:busy")
                assert int(headers["Retry-After"]) > 0
                answers.append(answer)
        assert answers == [answers[0]] * 4
        small = padded(300)
        assert (await edge.post("/v1/hooks/acme/shop", small, signed(small, b"x")))[0] == 401
        log.go_on.set()
        assert (await first)[0] == 202
        redelivered = padded(900)
        status, _, _ = await edge.post("/v1/hooks/acme/shop", redelivered, signed(redelivered))
        assert status == 200
