"""A batch of `payloads` that lost bits on a broker's disk costs the bodies in it an attempt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.damaged_log import damaged

from streams.broker.embedded import EmbeddedKafka
from streams.errors import PermanentError, TransientError
from streams.kafka.payload_reader import PayloadReader
from streams.serde.records import PayloadRef
from streams.settings import Settings

pytestmark = pytest.mark.broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("payloads", 1, 1)])["payloads"].result(20)
        yield running


@pytest.fixture
def reader(broker: EmbeddedKafka) -> Iterator[PayloadReader]:
    reader, closed = (
        PayloadReader(Settings(bootstrap=broker.bootstrap), "worker"),
        threading.Event(),
    )
    thread = threading.Thread(target=reader.run, args=(closed,))
    thread.start()
    yield reader
    closed.set()
    thread.join()


def write_batches(broker: EmbeddedKafka, *bodies: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for body in bodies:
        producer.produce("payloads", body, b"k", 0)
        assert producer.flush(20) == 0


def purge(broker: EmbeddedKafka, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (purged,) = admin.delete_records([TopicPartition("payloads", 0, before)]).values()
    purged.result(20)


def body_at(*offsets: int) -> PayloadRef:
    return PayloadRef(0, offsets, 1, "k")


def test_bodies_behind_it_are_read_and_its_own_may_be_later(
    broker: EmbeddedKafka, reader: PayloadReader, tmp_path: Path
) -> None:
    bodies = b"first" * 9, b"second" * 9, b"third" * 9
    write_batches(broker, *bodies)
    with damaged(tmp_path, "payloads", 1):
        across, inside, behind = (reader.fetch(body_at(*at)) for at in ((0, 2), (1,), (2,)))
        assert across.result(30) == [bodies[0], bodies[2]]
        assert behind.result(30) == [bodies[2]]
        with pytest.raises(TransientError, match="damaged batch at offset 1 "):
            inside.result(30)
    assert reader.fetch(body_at(1)).result(30) == [bodies[1]]


def test_what_retention_took_fails_for_good(broker: EmbeddedKafka, reader: PayloadReader) -> None:
    write_batches(broker, *(b"%d" % number for number in range(6)))
    purge(broker, 4)
    gone, there = reader.fetch(body_at(3)), reader.fetch(body_at(4))
    with pytest.raises(PermanentError, match="payloads:0:3 is gone"):
        gone.result(20)
    assert there.result(30) == [b"4"]
