"""The edge on a real broker: what a 2xx promises, and what happens while no broker answers."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from conditions import eventually
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from webhooks import VAULT, signed, source, tenant, ticket, topology, zendesk_signed

from ingress.server import IngressServer
from streams.broker.embedded import EmbeddedKafka
from streams.broker.ports import pick_free
from streams.data_key import CHUNK_BYTES
from streams.errors import ConfigError
from streams.key_book import KeyBook
from streams.serde import ids
from streams.serde.codec import DEAD_LETTER, ENVELOPE, QUARANTINED, REJECTION
from streams.serde.keys import tenant_key
from streams.serde.records import Envelope
from streams.settings import Settings

pytestmark = pytest.mark.broker

TOPICS = ("payloads", "events.received", "tenants", "dlq", "quarantine", "rejections")
PARTITIONS = 4
MIB = 1024 * 1024


class World:
    """One set of topics under a prefix of its own, as an operator and an analyst see it."""

    def __init__(self, bootstrap: str, client_settings: dict[str, str]) -> None:
        self.settings = Settings(
            bootstrap=bootstrap,
            topic_prefix=f"t{uuid.uuid4().hex[:8]}.",
            port=0,
            kafka=client_settings,
        )
        self._producer = Producer(self.settings.client())

    def create_topics(self) -> None:
        admin = AdminClient(self.settings.client())
        names = [self.settings.topic_prefix + name for name in TOPICS]
        for created in admin.create_topics([NewTopic(n, PARTITIONS, 1) for n in names]).values():
            created.result(30)

    def put(self, record: tuple[bytes, bytes | None]) -> None:
        key, value = record
        partition = ids.partition_for(key.split(b"\0")[0].decode(), PARTITIONS)
        self._producer.produce(self.settings.topic_prefix + "tenants", value, key, partition)
        assert self._producer.flush(10) == 0

    def scan(self, topic: str) -> list[Message]:
        """All that can be read of a topic now, as a reader of committed records."""
        name = self.settings.topic_prefix + topic
        consumer = Consumer(
            self.settings.client(**{"group.id": "scan", "isolation.level": "read_committed"})
        )
        found: list[Message] = []
        try:
            for partition in range(PARTITIONS):
                place = TopicPartition(name, partition, 0)
                _, end = consumer.get_watermark_offsets(place, timeout=10)
                consumer.assign([place])
                while end and consumer.position([place])[0].offset < end:
                    message = consumer.poll(10)
                    assert message is not None, f"{topic} cannot be read to its end"
                    assert message.error() is None
                    found.append(message)
        finally:
            consumer.close()
        return found

    def body(self, envelope: Envelope) -> bytes:
        """The raw body that an envelope refers to, opened by what stands on the topics."""
        book, ref = KeyBook(VAULT), envelope.payload_ref
        for message in self.scan("tenants"):
            book.apply(message.key(), message.value())
        sealed = {(m.partition(), m.offset()): m.value() or b"" for m in self.scan("payloads")}
        key = book.find(envelope.tenant_id, ref.key_id).result(0)
        chunks = [sealed[ref.partition, offset] for offset in ref.offsets]
        return key.open(envelope.event_id, chunks, ref.size)


class Hooks:
    """A client of one running ingress."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def post(
        self, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        url = f"{self.url}/v1/hooks/{path}"
        async with self.session.post(url, data=body, headers=headers) as response:
            return response.status, orjson.loads(await response.read()), dict(response.headers)

    async def deliver(self, tenant_id: str, body: bytes) -> tuple[int, dict[str, Any]]:
        status, answer, _ = await self.post(f"{tenant_id}/zendesk", body, zendesk_signed(body))
        return status, answer

    async def status(self, path: str) -> int:
        async with self.session.get(self.url + path) as response:
            return response.status

    async def reaches(
        self, wanted: Callable[[], Any], what: str, timeout: float = 20
    ) -> tuple[Any, float]:
        """The first true value of an awaitable condition, and how long it took."""
        started = time.monotonic()
        while time.monotonic() - started < timeout:
            value = await wanted()
            if value:
                return value, time.monotonic() - started
            await asyncio.sleep(0.02)
        raise AssertionError(f"not within {timeout} s: {what}")

    async def ready(self) -> None:
        async def answers() -> bool:
            return await self.status("/readyz") == 200

        await self.reaches(answers, "ingress is ready")


@pytest.fixture
def world(kafka: Any) -> World:
    found = World(kafka.bootstrap, kafka.client_settings)
    found.create_topics()
    for tenant_id in ("acme", "bolt"):
        found.put(source(tenant_id, "zendesk", "zendesk"))
        found.put(source(tenant_id, "shop", "hmac-sha256"))
    return found


async def started(settings: Settings, **options: Any) -> tuple[IngressServer, str]:
    server = IngressServer(settings, topology(), VAULT, **options)
    port = await server.start()
    return server, f"http://127.0.0.1:{port}"


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
    assert [name for name, _ in received.headers() or []] == [
        "traceparent", "ce_id", "ce_source", "ce_specversion", "ce_type",
    ]  # fmt: skip


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

        _, took = await hooks.reaches(reached, f"{wanted}")
        assert took < 2

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
    await hooks.reaches(live, "the record behind the broken one")
    assert (await hooks.deliver("acme", ticket("e1")))[0] == 401
    [letter] = eventually(lambda: world.scan("dlq"), what="a dead letter")
    dead = DEAD_LETTER.decode(letter.value())
    assert (dead.kind, dead.stage, dead.topic, dead.reason) == (
        "record", "ingress", "tenants", "undecodable",
    )  # fmt: skip
    assert (dead.tenant_id, dead.value, letter.key()) == (
        "acme", b"not a record", dead.id.encode(),
    )  # fmt: skip


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
        payload.partition(), (payload.offset(),),
    )  # fmt: skip
    counted = [REJECTION.decode(m.value()) for m in world.scan("rejections")]
    assert {(each.tenant_id, each.source, each.reason, each.count) for each in counted} == {
        ("acme", "shop", "unauthorized", 1), (None, None, "unauthorized", 1),
    }  # fmt: skip


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


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker that a test may kill."""
    broker = EmbeddedKafka(tmp_path / "kafka")
    yield broker
    broker.stop()


async def test_a_broker_killed_under_load_loses_no_2xx_and_503s_say_when_to_retry(
    own_broker: EmbeddedKafka,
) -> None:
    await asyncio.to_thread(own_broker.start)
    world = World(own_broker.bootstrap, {})
    world.create_topics()
    world.put(source("acme", "zendesk", "zendesk"))
    server, url = await started(world.settings, deadline_seconds=1.0)
    answered: dict[str, str] = {}
    refused: list[dict[str, str]] = []
    async with aiohttp.ClientSession() as session:
        hooks = Hooks(url, session)
        await hooks.ready()
        over = asyncio.Event()

        async def sender(lane: int) -> None:
            number = 0
            while not over.is_set():
                body = ticket(f"{lane}-{number}")
                status, answer, headers = await hooks.post(
                    "acme/zendesk", body, zendesk_signed(body)
                )
                if status in (200, 202):
                    answered[answer["event_id"]] = answer["status"]
                    number += 1
                else:
                    assert status == 503
                    refused.append(headers)

        lanes = [asyncio.create_task(sender(lane)) for lane in range(8)]

        async def many(count: int) -> bool:
            return len(answered) >= count

        await hooks.reaches(lambda: many(100), "events before the fault")
        await asyncio.to_thread(own_broker.kill)

        async def told() -> bool:
            return len(refused) >= 8

        await hooks.reaches(told, "503 while the broker is gone")
        assert await hooks.status("/healthz") == 200
        before = len(answered)
        await asyncio.to_thread(own_broker.start)
        await hooks.reaches(lambda: many(before + 100), "events after the fault", 60)
        over.set()
        await asyncio.gather(*lanes)
    await server.stop()
    stored = {ENVELOPE.decode(m.value()).event_id for m in world.scan("events.received")}
    assert set(answered) <= stored
    assert all(int(headers["Retry-After"]) > 0 for headers in refused)


async def test_without_a_broker_at_start_it_is_alive_says_503_and_is_ready_when_one_comes(
    own_broker: EmbeddedKafka,
) -> None:
    await asyncio.to_thread(own_broker.start)
    world = World(own_broker.bootstrap, {})
    world.create_topics()
    world.put(source("acme", "zendesk", "zendesk"))
    await asyncio.to_thread(own_broker.stop)
    server, url = await started(world.settings)
    async with aiohttp.ClientSession() as session:
        hooks = Hooks(url, session)
        body = ticket("e1")
        status, _, headers = await hooks.post("acme/zendesk", body, zendesk_signed(body))
        assert (status, int(headers["Retry-After"]) > 0) == (503, True)
        assert [await hooks.status(p) for p in ("/healthz", "/readyz")] == [200, 503]
        await asyncio.to_thread(own_broker.start)
        await hooks.ready()
        assert (await hooks.deliver("acme", body))[0] == 202
    await server.stop()


PROGRAM = """
import sys, pathlib
from webhooks import topology
from ingress.server import run
from streams.settings import Settings
run(Settings.model_validate_json(sys.argv[1]), topology())
"""


@contextmanager
def process(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, str(Path(__file__).parents[2])])
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, settings.model_dump_json()],
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def peak_memory(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) * 1024


async def test_many_large_bodies_at_once_are_all_answered_and_take_little_memory(
    world: World, tmp_path: Path
) -> None:
    size, budget, many = 4 * MIB, 10 * MIB, 24
    world.put(source("acme", "large", "hmac-sha256", max_body_bytes=size))
    key = tmp_path / "vault.key"
    key.write_bytes(b"k" * 32)
    port = pick_free()
    update = {"port": port, "vault_key_file": (key,), "in_flight_bytes": budget}
    bodies = [b'{"id":"%d","pad":"' % n + b"x" * (size - 30) + b'"}' for n in range(many)]
    with process(world.settings.model_copy(update=update)) as child:
        async with aiohttp.ClientSession() as session:
            hooks = Hooks(f"http://127.0.0.1:{port}", session)
            await asyncio.to_thread(
                eventually, lambda: http_status(f"{hooks.url}/readyz") == 200, 30, what="ready"
            )
            quiet = peak_memory(child.pid)
            answers = await asyncio.gather(
                *(hooks.post("acme/large", body, signed(body)) for body in bodies)
            )
            grown = peak_memory(child.pid) - quiet
    statuses = [status for status, _, _ in answers]
    assert set(statuses) <= {202, 429}
    assert 1 <= statuses.count(202) < many
    assert all("Retry-After" in headers for status, _, headers in answers if status == 429)
    events = [ENVELOPE.decode(m.value()) for m in world.scan("events.received")]
    assert len(events) == statuses.count(202)
    assert all(world.body(event) in bodies for event in events)
    assert grown < many * size / 2


def http_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def probe_status(kept: http.client.HTTPConnection) -> int:
    kept.request("GET", "/readyz")
    response = kept.getresponse()
    response.read()
    return response.status


def test_sigterm_first_ends_readiness_then_answers_what_is_under_way(
    world: World, tmp_path: Path
) -> None:
    key = tmp_path / "vault.key"
    key.write_bytes(b"k" * 32)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    update = {"port": port, "vault_key_file": (key,)}
    with process(world.settings.model_copy(update=update)) as child:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: http_status(f"{url}/readyz") == 200, 20, what="ready")
        body = b'{"id":"half"}'
        head = (
            f"POST /v1/hooks/acme/shop HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            f"X-Signature: {signed(body)['X-Signature']}\r\n\r\n"
        )
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        assert probe_status(kept) == 200
        with socket.create_connection(("127.0.0.1", port), timeout=15) as slow:
            slow.sendall(head.encode() + body[:5])
            child.send_signal(signal.SIGTERM)
            eventually(lambda: probe_status(kept) == 503, what="not ready")
            eventually(lambda: http_status(f"{url}/readyz") == 0, what="no new connections")
            slow.sendall(body[5:])
            answer = b"".join(iter(lambda: slow.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 202")
        assert b"connection: close" in answer.lower()
        assert child.wait(15) == 0
    assert len(world.scan("events.received")) == 1
