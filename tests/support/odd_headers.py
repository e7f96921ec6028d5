"""Records whose headers have names that no client of ours could write, as the client reads them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from support.conditions import PATIENCE_SECONDS

Name = bytes
_TIME = 1_750_000_000_000
_PRODUCE, _VERSION = 0, 3


class _AsItIs(str):
    """A name that is written as these bytes."""

    raw: bytes

    def encode(self, *_: Any) -> bytes:
        return self.raw


def messages_with_headers(
    topic: str, value: bytes, names: Sequence[Sequence[Name]]
) -> list[Message]:
    """Messages of a broker that librdkafka plays, one for each list of names of headers."""
    played = Producer({"bootstrap.servers": "x:1", "test.mock.num.brokers": "1", "log_level": 0})
    (broker,) = played.list_topics(timeout=PATIENCE_SECONDS).brokers.values()
    address = f"{broker.host}:{broker.port}"
    played.produce(topic, b"makes the topic", partition=0)
    played.flush(5)
    _produce(broker.host, broker.port, topic, _batch(value, names))
    config = {"bootstrap.servers": address, "group.id": "g", "log_level": 0}
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 1)])
        found: list[Message] = []
        while len(found) < len(names):
            found += consumer.consume(len(names), 1)
    return found


def _batch(value: bytes, names: Sequence[Sequence[Name]]) -> bytes:
    batch = _DefaultRecordBatchBuilderPy(2, 0, False, -1, -1, -1, 1 << 20)
    for number, each in enumerate(names):
        headers = [(_named(name), b"1") for name in each]
        batch.append(number, _TIME, b"acme", value, headers)
    return bytes(batch.build())


def _named(raw: bytes) -> str:
    name = _AsItIs("name")
    name.raw = raw
    return name


def _produce(host: str, port: int, topic: str, batch: bytes) -> None:
    """Send one batch (Kafka protocol guide, "Produce", version 3)."""
    head = struct.pack(">hhi", _PRODUCE, _VERSION, 1) + _text("test")
    wanted = struct.pack(">hhii", -1, 1, 5_000, 1) + _text(topic)
    whole = head + wanted + struct.pack(">iii", 1, 0, len(batch)) + batch
    with socket.create_connection((host, port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(whole)) + whole)
        assert connection.recv(1_000)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
