"""The stage reads `events` and `jobs` again on a real broker, beside all that goes on there."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.topics import create_topics

from streams.delivery.kafka_history import KafkaHistory
from streams.kafka.admin import admin_client
from streams.runtime.processor import Record
from streams.settings import Settings

pytestmark = pytest.mark.broker

PARTITIONS = 4
Place = tuple[str, int]


class Topics:
    """`events` and `jobs` under a prefix of their own."""

    def __init__(self, kafka: KafkaUnderTest) -> None:
        prefix = f"test-{uuid.uuid4().hex[:8]}."
        self.settings = Settings(
            bootstrap=kafka.bootstrap, kafka=kafka.client_settings, topic_prefix=prefix
        )
        self.admin = admin_client(self.settings)
        new = [NewTopic(prefix + topic, PARTITIONS, 1) for topic in ("events", "jobs")]
        create_topics(kafka.bootstrap, self.admin, new)

    def name(self, topic: str) -> str:
        return self.settings.topic_prefix + topic

    def producer(self, transactional: str = "") -> Producer:
        if not transactional:
            return Producer(self.settings.client())
        found = Producer(self.settings.client(**{"transactional.id": self.name(transactional)}))
        found.init_transactions(30)
        return found

    def write(self, topic: str, partition: int, values: list[bytes], at: int = 0) -> None:
        producer = self.producer()
        for value in values:
            producer.produce(self.name(topic), value, b"k", partition, timestamp=at)
        assert producer.flush(30) == 0


@pytest.fixture
def topics(kafka: KafkaUnderTest) -> Topics:
    return Topics(kafka)


@pytest.fixture
def failures() -> list[Exception]:
    return []


@pytest.fixture
def history(topics: Topics, failures: list[Exception]) -> Iterator[KafkaHistory]:
    found = KafkaHistory(topics.settings, failures.append)
    found.start()
    yield found
    found.stop()
    assert failures == []


class Reader:
    """Asks for one partition as the stage does, a part at a time."""

    def __init__(
        self, history: KafkaHistory, place: Place, since: int = 1, offset: int = -1
    ) -> None:
        self._history, self._place = history, place
        self._since, self._offset = since, offset
        self.records: list[Record] = []
        self.parts: list[int] = []
        self.done = False

    def ask(self) -> bool:
        """Ask once; returns whether all was read."""
        if not self.done:
            part = self._history.read(*self._place, self._since, self._offset)
            if part is not None:
                self.records += part.records
                self.parts.append(len(part.records))
                self._offset, self.done = part.position, part.done
        return self.done

    def all(self) -> list[bytes | None]:
        eventually(self.ask, what=f"the end of {self._place}")
        return [record.value for record in self.records]


def test_partitions_that_ask_at_once_are_each_read_whole_in_parts(
    topics: Topics, history: KafkaHistory
) -> None:
    written = {
        (t, p): [b"%d" % n for n in range(2_300 + p)]
        for t, p in zip(("events", "jobs") * 2, range(PARTITIONS), strict=True)
    }
    for place, values in written.items():
        topics.write(*place, values)
    readers = {place: Reader(history, place) for place in written}
    eventually(lambda: sum(r.ask() for r in readers.values()) == PARTITIONS, what="all are read")
    assert {place: r.all() for place, r in readers.items()} == written
    assert all(max(r.parts) == 1_000 for r in readers.values())
    assert {r.topic for r in readers["jobs", 1].records} == {"jobs"}


def test_reading_begins_at_a_time_less_a_minute(topics: Topics, history: KafkaHistory) -> None:
    now = time.time_ns() // 1_000_000
    for value, age in ((b"old", 120_000), (b"slack", 50_000), (b"new", 0)):
        topics.write("jobs", 2, [value], now - age)
    assert Reader(history, ("jobs", 2), now).all() == [b"slack", b"new"]


def test_an_aborted_transaction_at_the_end_is_passed_over(
    topics: Topics, history: KafkaHistory
) -> None:
    topics.write("events", 0, [b"1", b"2"])
    producer = topics.producer("aborting")
    producer.begin_transaction()
    producer.produce(topics.name("events"), b"never", b"k", 0)
    producer.flush(30)
    producer.abort_transaction(30)
    assert Reader(history, ("events", 0)).all() == [b"1", b"2"]


def test_an_open_transaction_is_waited_for_and_keeps_no_other_partition_waiting(
    topics: Topics, history: KafkaHistory
) -> None:
    topics.write("events", 0, [b"1"])
    topics.write("events", 1, [b"other"])
    producer = topics.producer("open")
    producer.begin_transaction()
    producer.produce(topics.name("events"), b"2", b"k", 0)
    producer.flush(30)
    held, other = Reader(history, ("events", 0)), Reader(history, ("events", 1))
    assert not held.ask()
    assert other.all() == [b"other"]
    assert not held.ask()
    producer.commit_transaction(30)
    assert held.all() == [b"1", b"2"]


def test_a_topic_that_never_stands_still_has_an_end(topics: Topics, history: KafkaHistory) -> None:
    """A reader that waited until nothing more came would not end."""
    stop, written = threading.Event(), threading.Event()

    def write() -> None:
        producer = topics.producer()
        while not stop.wait(0.002):
            producer.produce(topics.name("events"), b"more", b"k", 3)
            producer.poll(0)
            written.set()
        producer.flush(30)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(PATIENCE_SECONDS)
        eventually(Reader(history, ("events", 3)).ask, what="the end that it had at first")
    finally:
        stop.set()
        writer.join()


def test_what_retention_deleted_is_passed_over(topics: Topics, history: KafkaHistory) -> None:
    topics.write("events", 0, [b"%d" % n for n in range(20)])
    place = TopicPartition(topics.name("events"), 0, 15)
    for future in topics.admin.delete_records([place]).values():
        future.result(30)
    assert Reader(history, ("events", 0), offset=3).all() == [b"%d" % n for n in range(15, 20)]


def test_without_a_broker_reading_waits_and_the_caller_does_not(failures: list[Exception]) -> None:
    history = KafkaHistory(Settings(bootstrap="127.0.0.1:1"), failures.append)
    history.start()
    parts = list[object]()

    def read() -> None:
        parts.extend(history.read("events", p, 1, -1) for p in range(100))

    threading.Thread(target=read, daemon=True).start()
    eventually(lambda: len(parts) == 100, what="no read waits for a broker")
    assert parts == [None] * 100
    history.stop()
    assert failures == []
