"""The edge on a real broker: what a 2xx promises, what is live when, what is kept of a refusal."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from support.ingress_world import PARTITIONS, Hooks, World, given, started
from support.webhooks import VAULT, signed, source, tenant, ticket, topology

from ingress.http.server import IngressServer
from streams.errors import ConfigError
from streams.serde import ids
from streams.serde.codec import DEAD_LETTER, ENVELOPE, QUARANTINED, REJECTION
from streams.serde.keys import tenant_key
from streams.serde.sizes import CHUNK_BYTES

pytestmark = pytest.mark.broker


@pytest.fixture
def world(kafka: Any) -> World:
    return given(kafka)


@pytest.fixture
async def hooks(world: World) -> AsyncIterator[Hooks]:
    server, url = await started(world.settings)
    async with aiohttp.ClientSession() as session:
        found = Hooks(url, session)
        await found.ready()
        yield found
    await server.stop()


async def test_a_202_is_on_both_topics_when_it_is_answered(world: World, hooks: Hooks) -> None:
    body = ticket("e1")
    status, answer = await hooks.deliver("acme", body)
    [received], [payload] = world.scan("events.received"), world.scan("payloads")
    envelope = ENVELOPE.decode(received.value())
    assert (status, envelope.event_id) == (202, answer["event_id"])
    assert answer["job_id"] == ids.event_job_id("acme", "zendesk", "e1")
    ref = envelope.payload_ref
    assert (ref.partition, ref.offsets) == (payload.partition(), (payload.offset(),))
    sealed = payload.value()
    assert sealed is not None
    assert body not in sealed
    assert world.body(envelope) == body
    home = ids.partition_for("acme", PARTITIONS)
    assert {m.partition() for m in (received, payload)} == {home}
    headers: Any = received.headers()
    assert [name for name, _ in headers] == [
        "traceparent",
        "ce_id",
        "ce_source",
        "ce_specversion",
        "ce_type",
    ]


async def test_a_redelivery_gets_the_same_ids_and_is_not_stored(world: World, hooks: Hooks) -> None:
    answers = await asyncio.gather(*(hooks.deliver("acme", ticket("e1")) for _ in range(20)))
    assert sorted(status for status, _ in answers) == [200] * 19 + [202]
    assert len({(a["event_id"], a["job_id"]) for _, a in answers}) == 1
    assert len(world.scan("events.received")) == 1


async def test_colliding_ids_of_two_tenants_stay_apart_whatever_bodies_say(
    world: World, hooks: Hooks
) -> None:
    body = ticket("e1", tenant_id="bolt", account_id="bolt")
    answers = [await hooks.deliver(tenant_id, body) for tenant_id in ("acme", "bolt")]
    assert [status for status, _ in answers] == [202, 202]
    envelopes = [ENVELOPE.decode(m.value()) for m in world.scan("events.received")]
    assert {(e.tenant_id, e.event_id) for e in envelopes} == {
        (tenant_id, answer["event_id"])
        for tenant_id, (_, answer) in zip(("acme", "bolt"), answers, strict=True)
    }
    assert len({answer["job_id"] for _, answer in answers}) == 2
    assert len({e.fingerprint for e in envelopes}) == 2


async def test_a_body_of_the_full_size_is_stored_and_a_byte_more_is_not(
    world: World, hooks: Hooks
) -> None:
    body = b'{"id":"big","pad":"' + b"x" * (1024 * 1024 - 21) + b'"}'
    status, answer, _ = await hooks.post("acme/shop", body, signed(body))
    larger = body + b" "
    refused, _, _ = await hooks.post("acme/shop", larger, signed(larger))
    assert (status, refused) == (202, 413)
    [received] = world.scan("events.received")
    envelope = ENVELOPE.decode(received.value())
    assert envelope.event_id == answer["event_id"]
    assert world.body(envelope) == body
    assert len(envelope.payload_ref.offsets) == -(-len(body) // CHUNK_BYTES)


async def test_a_source_set_changed_disabled_or_deleted_is_live_within_two_seconds(
    world: World, hooks: Hooks
) -> None:
    body = b'{"id":"live"}'

    async def status(secret: bytes) -> int:
        return (await hooks.post("acme/new", body, signed(body, secret)))[0]

    async def becomes(wanted: tuple[int, ...], secret: bytes) -> None:
        async def reached() -> bool:
            return await status(secret) in wanted

        await hooks.reaches(reached, f"{wanted}", 2)

    assert await status(b"one") == 401
    world.put(source("acme", "new", "hmac-sha256", [b"one"]))
    await becomes((202,), b"one")
    world.put(source("acme", "new", "hmac-sha256", [b"two", b"one"]))
    await becomes((200,), b"two")
    world.put(source("acme", "new", "hmac-sha256", [b"two"]))
    await becomes((401,), b"one")
    world.put(tenant("acme", disabled=True))
    await becomes((401,), b"two")
    world.put(tenant("acme"))
    await becomes((200,), b"two")
    world.put((tenant_key("acme", "source", "new"), None))
    await becomes((401,), b"two")


async def test_a_broken_record_of_tenants_is_dead_lettered_and_the_next_one_read(
    world: World, hooks: Hooks
) -> None:
    world.put((tenant_key("acme", "source", "zendesk"), b"not a record"))
    world.put(source("acme", "after", "hmac-sha256"))
    body = b'{"id":"after"}'

    async def live() -> bool:
        return (await hooks.post("acme/after", body, signed(body)))[0] in (200, 202)

    await hooks.reaches(live, "the record behind the broken one")
    assert (await hooks.deliver("acme", ticket("e1")))[0] == 401
    [letter] = await hooks.reaches(lambda: asyncio.to_thread(world.scan, "dlq"), "a dead letter")
    dead = DEAD_LETTER.decode(letter.value())
    assert (dead.kind, dead.stage, dead.topic, dead.reason) == (
        "record",
        "ingress",
        "tenants",
        "undecodable",
    )
    assert (dead.tenant_id, letter.key()) == ("acme", dead.id.encode())
    assert dead.value is None, "it may hold a secret"


async def test_a_misfit_is_durable_once_and_what_was_refused_is_written_when_it_ends(
    world: World,
) -> None:
    server, url = await started(world.settings)
    async with aiohttp.ClientSession() as session:
        hooks = Hooks(url, session)
        await hooks.ready()
        answers = [await hooks.post("acme/shop", b"<xml/>", signed(b"<xml/>")) for _ in range(2)]
        for path in ("acme/shop", "nobody/shop"):
            assert (await hooks.post(path, b"{}", {}))[0] == 401
    await server.stop()
    assert [(status, answer) for status, answer, _ in answers] == [answers[0][:2]] * 2
    assert answers[0][1]["status"] == "quarantined"
    [kept], [payload] = world.scan("quarantine"), world.scan("payloads")
    record = QUARANTINED.decode(kept.value())
    assert record.event_id == answers[0][1]["event_id"]
    assert (record.payload_ref.partition, record.payload_ref.offsets) == (
        payload.partition(),
        (payload.offset(),),
    )
    counted = [REJECTION.decode(m.value()) for m in world.scan("rejections")]
    assert {(each.tenant_id, each.source, each.reason, each.cause) for each in counted} == {
        ("acme", "shop", "unauthorized", "missing_header"),
        (None, None, "unauthorized", "unknown_tenant"),
    }


async def test_a_connection_without_a_complete_request_head_is_closed(world: World) -> None:
    server, url = await started(world.settings, keepalive_seconds=0.2)
    port = int(url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/hooks/acme/zendesk HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    await writer.drain()
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    await server.stop()


async def test_an_address_in_use_is_a_clear_error(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = world.settings.model_copy(update={"port": taken.getsockname()[1]})
        server = IngressServer(settings, topology(), VAULT)
        with pytest.raises(ConfigError, match="--port"):
            await server.start()
