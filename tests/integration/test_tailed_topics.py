"""A tail on a real broker: markers, purged records, and the end of a partition."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.topics import create_topics

from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import latest, read_offsets
from streams.kafka.tail import Tail, Unreadable
from streams.settings import Settings

HERE, THERE = ("tailed", 0), ("tailed", 1)


class Topic:
    """A topic of two partitions; one producer writes to it in transactions."""

    def __init__(self, kafka: KafkaUnderTest) -> None:
        self.prefix = f"t{uuid.uuid4().hex[:8]}."
        self.admin = LeaderCachingAdmin(kafka.client())
        self.settings = Settings(
            bootstrap=kafka.bootstrap, topic_prefix=self.prefix, kafka=kafka.client_settings
        )
        create_topics(kafka.bootstrap, self.admin, [NewTopic(f"{self.prefix}tailed", 2, 1)])
        self._producer = Producer({**kafka.client(), "transactional.id": self.prefix})
        self._producer.init_transactions(30)

    def write(self, *values: bytes, commit: bool = True) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(f"{self.prefix}tailed", value, partition=0)
        self._producer.flush(30)
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(30)

    def ends(self) -> dict[tuple[str, int], int]:
        return read_offsets(self.admin, self.prefix, [HERE, THERE], latest(), 10)

    def purge(self, before: int) -> None:
        place = TopicPartition(f"{self.prefix}tailed", 0, before)
        for deleted in self.admin.delete_records([place]).values():
            deleted.result(30)


@pytest.fixture
def topic(kafka: KafkaUnderTest) -> Topic:
    return Topic(kafka)


@pytest.fixture
def tail(topic: Topic) -> Iterator[Tail]:
    with Tail(topic.settings, "tailed") as found:
        yield found


def read(tail: Tail, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []

    def enough() -> bool:
        found.extend(message.value() for message in tail.read(500, 0.1))
        return len(found) >= count

    eventually(enough, what=f"{count} records")
    return found


def test_markers_and_aborted_records_are_passed(topic: Topic, tail: Tail) -> None:
    topic.write(b"a", b"b")
    topic.write(b"aborted", commit=False)
    tail.begin({HERE: OFFSET_BEGINNING, THERE: OFFSET_BEGINNING})
    assert read(tail, 2) == [b"a", b"b"]
    ends = topic.ends()
    assert ends == {HERE: 5, THERE: 0}
    eventually(lambda: tail.read(500, 0.1) == [] and tail.reached(ends), what="the ends")
    eventually(lambda: tail.read(500, 0.1) == [] and tail.caught_up, what="it has caught up")


def test_purged_records_are_told_and_the_oldest_that_is_left_is_next(
    topic: Topic, tail: Tail
) -> None:
    topic.write(b"a", b"b", b"c")
    topic.purge(2)
    tail.begin({HERE: 1})
    with pytest.raises(Unreadable, match="offset 1 was purged") as raised:
        read(tail, 1)
    assert raised.value.fault.gone
    tail.again(raised.value.fault)
    assert read(tail, 1) == [b"c"]


def test_it_begins_at_the_ends_that_there_were(topic: Topic, tail: Tail) -> None:
    topic.write(b"before")
    assert tail.widths(30)["tailed"] == 2
    tail.begin_at_end([HERE, THERE], 30)
    topic.write(b"after")
    assert read(tail, 1) == [b"after"]
