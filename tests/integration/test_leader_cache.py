"""Offsets are asked for only of leaders that the client knows."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from logging.handlers import QueueHandler
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.topics import create_topics

from streams.kafka.offsets import earliest, latest, offset_in, read_offsets, request_offsets
from streams.topology import leader_cache
from streams.topology.leader_cache import LeaderCachingAdmin

_LOOKS_FOR_LEADERS = "query partition leaders"
"""A reason that librdkafka logs with a request for metadata."""

Lines = SimpleQueue[logging.LogRecord]


@pytest.fixture
def places(kafka: KafkaUnderTest) -> list[tuple[str, int]]:
    topic = f"leaders-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap, AdminClient(kafka.client()), [NewTopic(topic, 3, 1)])
    return [(topic, number) for number in range(3)]


class Watched:
    """A client whose requests librdkafka logs."""

    def __init__(self, make: Callable[..., AdminClient], kafka: KafkaUnderTest) -> None:
        self._lines: Lines = SimpleQueue()
        logger = logging.Logger("librdkafka", logging.DEBUG)
        logger.addHandler(QueueHandler(self._lines))
        self.admin = make({**kafka.client(), "debug": "metadata", "logger": logger})

    def ask_twice_at_once(self, places: list[tuple[str, int]]) -> bool:
        """Whether librdkafka looked for a leader for its answers."""
        specs = earliest(), latest()
        answers = [request_offsets(self.admin, "", places, spec, 30) for spec in specs]
        assert [offset_in(each) for answer in answers for each in answer.values()] == [0] * 6
        self.admin.poll(0)  # hands over the lines
        found = [self._lines.get_nowait().getMessage() for _ in range(self._lines.qsize())]
        return any(_LOOKS_FOR_LEADERS in line for line in found)


def test_a_new_client_looks_for_no_leader_while_it_asks(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    assert not Watched(LeaderCachingAdmin, kafka).ask_twice_at_once(places)
    assert Watched(AdminClient, kafka).ask_twice_at_once(places)


@pytest.mark.parametrize(("believed", "looks"), [(0.1, False), (100.0, True)])
def test_nor_does_it_once_librdkafka_has_forgotten_the_leaders(
    kafka: KafkaUnderTest, places: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch,
    believed: float, looks: bool,
) -> None:  # fmt: skip
    """It reads them again before; a client that believes them for longer would look."""
    monkeypatch.setattr(leader_cache, "_BELIEVED_SECONDS", believed)
    monkeypatch.setattr(leader_cache, "_CACHED_MS", 300)
    client = Watched(LeaderCachingAdmin, kafka)
    assert not client.ask_twice_at_once(places)
    forgotten_at = time.monotonic() + 0.6
    eventually(lambda: time.monotonic() > forgotten_at, what="librdkafka forgets")
    assert client.ask_twice_at_once(places) is looks


def test_a_topic_that_came_later_is_learned(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    admin = LeaderCachingAdmin(kafka.client())
    later = f"later-{uuid.uuid4().hex[:8]}"
    with pytest.raises(KafkaException, match="UNKNOWN"):
        read_offsets(admin, "", [*places, (later, 0)], latest(), 10)
    create_topics(kafka.bootstrap, AdminClient(kafka.client()), [NewTopic(later, 1, 1)])
    assert read_offsets(admin, "", [(later, 0)], latest(), 10) == {(later, 0): 0}


def test_without_a_broker_each_answer_holds_the_error() -> None:
    admin = LeaderCachingAdmin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    answers = request_offsets(admin, "", [("a", 0), ("b", 0)], latest(), 0.2)
    assert len(answers) == 2
    for answer in answers.values():
        with pytest.raises(KafkaException):
            offset_in(answer)


def test_a_partition_without_a_leader_is_not_asked_for(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    admin = LeaderCachingAdmin(kafka.client())
    metadata = admin.list_topics(timeout=10)
    metadata.topics[places[0][0]].partitions[1].leader = -1
    admin._leaders.learn(metadata)
    answers = request_offsets(admin, "", places, latest(), 10)
    with pytest.raises(KafkaException, match="LEADER_NOT_AVAILABLE"):
        offset_in(answers[places[1]])
    assert [offset_in(answers[place]) for place in (places[0], places[2])] == [0, 0]


@pytest.mark.parametrize("offset", [None, -1001, -1, 0])
def test_what_a_question_failed_on_is_believed_no_more(offset: int | None) -> None:
    leaders = leader_cache._Leaders()
    leaders.learn(SimpleNamespace(topics={"a": SimpleNamespace(partitions={})}))  # type: ignore[arg-type]
    place, answer = TopicPartition("a", 0), Future[Any]()
    assert leaders.known([place])
    assert not leaders.known([place, TopicPartition("b", 0)])
    if offset is None:
        answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
    else:
        answer.set_result(SimpleNamespace(offset=offset))
    leaders.doubt(answer)
    assert leaders.known([place]) is (offset in (-1, 0))
