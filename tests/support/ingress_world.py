"""An ingress on a real broker: its topics, a running server, a client."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
import orjson
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from ingress.http.server import IngressServer
from streams.kafka.admin import admin_client
from streams.serde import ids
from streams.serde.records import Envelope
from streams.settings import Settings
from streams.vault.keyring import DataKeyring
from support.conditions import PATIENCE_SECONDS, POLL_SECONDS, Waited
from support.topics import create_topics
from support.webhooks import VAULT, source, topology, zendesk_signed

T = TypeVar("T")
TOPICS = ("payloads", "events.received", "tenants", "dlq", "quarantine", "rejections")
PARTITIONS = 4


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
        names = [self.settings.topic_prefix + name for name in TOPICS]
        topics = [NewTopic(name, PARTITIONS, 1) for name in names]
        create_topics(self.settings.bootstrap, admin_client(self.settings), topics)

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
                _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_SECONDS)
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
        book, ref = DataKeyring(VAULT), envelope.payload_ref
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
        self, wanted: Callable[[], Awaitable[T]], what: str, timeout: float = PATIENCE_SECONDS
    ) -> T:
        """The first true value of an awaitable condition: `eventually` for an event loop."""
        waited = Waited(timeout)
        while True:
            last = waited.over
            value = await wanted()
            if value:
                return value
            waited.looked()
            if last:
                raise waited.failure(what)
            await asyncio.sleep(POLL_SECONDS)
            waited.slept()

    async def ready(self) -> None:
        async def answers() -> bool:
            return await self.status("/readyz") == 200

        await self.reaches(answers, "ingress is ready")


def given(kafka: Any) -> World:
    """Topics on a broker, with two sources of each of two tenants."""
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
