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
from weakref import ref

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.topics import create_topics

from streams.kafka import admin as admin_module
from streams.kafka import leaders
from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import (
    earliest,
    latest,
    offset_in,
    read_offsets,
    request_offsets,
    since,
)

_LOOKS_FOR_LEADERS = "query partition leaders"
"""A reason that librdkafka logs with a request for metadata."""

Lines = SimpleQueue[logging.LogRecord]


@pytest.fixture
def places(kafka: KafkaUnderTest) -> list[tuple[str, int]]:
    topic = f"leaders-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap, LeaderCachingAdmin(kafka.client()), [NewTopic(topic, 3, 1)])
    return [(topic, number) for number in range(3)]


class Watched:
    """A client whose requests librdkafka logs."""

    def __init__(self, make: Callable[..., AdminClient], kafka: KafkaUnderTest) -> None:
        self._lines: Lines = SimpleQueue()
        logger = logging.Logger("librdkafka", logging.DEBUG)
        logger.addHandler(QueueHandler(self._lines))
        self.admin = make({**kafka.client(), "debug": "metadata", "logger": logger})

    def looks(self, places: list[tuple[str, int]], times: int = 1) -> bool:
        """Whether librdkafka looks for a leader for some questions, asked at once."""
        answers = [
            request_offsets(self.admin, "", places, spec, 30)
            for spec in (earliest(), latest())[:times]
        ]
        assert [offset_in(each) for answer in answers for each in answer.values()] == [
            0 for _ in range(3 * times)
        ]
        return self.says(_LOOKS_FOR_LEADERS)

    def says(self, words: str) -> bool:
        """Whether librdkafka has logged them since it was last asked."""
        self.admin.poll(0)  # hands over the lines
        found = [self._lines.get_nowait().getMessage() for _ in range(self._lines.qsize())]
        return any(words in line for line in found)


def test_a_new_client_looks_for_no_leader_while_it_asks(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    assert not Watched(LeaderCachingAdmin, kafka).looks(places, times=2)
    assert Watched(AdminClient, kafka).looks(places)  # once: a second one might crash it


@pytest.mark.parametrize(("believed", "looks"), [(0.1, False), (100.0, True)])
def test_nor_does_it_once_librdkafka_has_forgotten_the_leaders(
    kafka: KafkaUnderTest,
    places: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    believed: float,
    looks: bool,
) -> None:
    """It reads them again before; a client that believes them for longer would look."""
    monkeypatch.setattr(leaders, "_BELIEVED_SECONDS", believed)
    monkeypatch.setattr(admin_module, "_CACHED_MS", 1_000)
    client = Watched(LeaderCachingAdmin, kafka)
    assert not client.looks(places)
    forgotten_at = time.monotonic() + 1.5
    eventually(lambda: time.monotonic() > forgotten_at, what="librdkafka forgets")
    assert client.looks(places) is looks


def test_questions_reach_the_broker_in_their_order(
    kafka: KafkaUnderTest, places: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later question must not be asked before one that still waits for the metadata."""
    asked: list[Any] = []
    ask = AdminClient.list_offsets

    def noted(self: Any, wanted: dict[Any, Any], **options: Any) -> Any:
        asked.append(next(iter(wanted.values()))._value)
        return ask(self, wanted, **options)

    monkeypatch.setattr(AdminClient, "list_offsets", noted)
    admin = LeaderCachingAdmin(kafka.client())
    specs = [since(number) for number in range(1, 30)]
    answers = [request_offsets(admin, "", places, spec, 30) for spec in specs]
    for answer in answers:
        for each in answer.values():
            each.result(30)
    assert asked == list(range(1, 30))


def test_it_asks_which_brokers_there_are_though_it_is_asked_for_no_topic(
    kafka: KafkaUnderTest,
) -> None:
    """Otherwise it would ask a broker that hangs for its groups for 5 minutes."""
    client = Watched(LeaderCachingAdmin, kafka)
    eventually(lambda: client.says("periodic broker list refresh"), what="it asks for brokers")


def test_a_topic_that_came_later_is_learned(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    admin = LeaderCachingAdmin(kafka.client())
    later = f"later-{uuid.uuid4().hex[:8]}"
    with pytest.raises(KafkaException, match="UNKNOWN"):
        read_offsets(admin, "", [*places, (later, 0)], latest(), 10)
    create_topics(kafka.bootstrap, LeaderCachingAdmin(kafka.client()), [NewTopic(later, 1, 1)])
    assert read_offsets(admin, "", [(later, 0)], latest(), 10) == {(later, 0): 0}


def test_without_a_broker_each_answer_holds_the_error() -> None:
    admin = LeaderCachingAdmin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    answers = request_offsets(admin, "", [("a", 0), ("b", 0)], latest(), 0.2)
    assert len(answers) == 2
    for answer in answers.values():
        with pytest.raises(KafkaException):
            offset_in(answer)


def test_a_cluster_that_is_slow_to_tell_its_metadata_is_given_more_time(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    given: list[float] = []

    class Slow(LeaderCachingAdmin):
        def list_topics(self, *_: Any, timeout: float = -1, **__: Any) -> Any:
            given.append(timeout)
            if timeout < 2:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return super().list_topics(timeout=timeout)

    found = read_offsets(Slow(kafka.client()), "", places, latest(), 10)
    assert found == dict.fromkeys(places, 0)
    assert given == [1.5, 3.0]


@pytest.fixture
def seconds_given(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long librdkafka was given for each question."""
    given: list[float] = []
    ask = AdminClient.list_offsets

    def noted(self: Any, wanted: dict[Any, Any], **options: Any) -> Any:
        given.append(options["request_timeout"])
        return ask(self, wanted, **options)

    monkeypatch.setattr(AdminClient, "list_offsets", noted)
    return given


def test_librdkafka_is_given_time_enough_to_be_asked(
    kafka: KafkaUnderTest, places: list[tuple[str, int]], seconds_given: list[float]
) -> None:
    """It frees a question whose time is over, also while the caller still puts it."""
    admin = LeaderCachingAdmin(kafka.client())
    read_offsets(admin, "", places, latest(), 10)
    asked = request_offsets(admin, "", places, latest(), 0.5)
    assert [offset_in(asked[place]) for place in places] == [0, 0, 0]
    assert seconds_given[-1] == 1.0


def test_a_question_that_waited_too_long_is_not_put(
    kafka: KafkaUnderTest, places: list[tuple[str, int]], seconds_given: list[float]
) -> None:
    """Not even if the metadata was read meanwhile."""

    class Late(LeaderCachingAdmin):
        def list_topics(self, *_: Any, timeout: float = -1, **__: Any) -> Any:
            over = time.monotonic() + timeout
            eventually(lambda: time.monotonic() > over, what="the question's time is over")
            return super().list_topics(timeout=PATIENCE_SECONDS)

    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        read_offsets(Late(kafka.client()), "", places, latest(), 0.2)
    assert seconds_given == []


def test_a_partition_without_a_leader_is_not_asked_for(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    admin = LeaderCachingAdmin(kafka.client())
    metadata = admin.list_topics(timeout=PATIENCE_SECONDS)
    metadata.topics[places[0][0]].partitions[1].leader = -1
    admin._leaders.learn(metadata, {}, time.monotonic(), 0)
    answers = request_offsets(admin, "", [*places, (places[0][0], 9)], latest(), 10)
    for place, code in ((places[1], "LEADER_NOT_AVAILABLE"), ((places[0][0], 9), "UNKNOWN_TOPIC")):
        with pytest.raises(KafkaException, match=code):
            offset_in(answers[place])
    assert [offset_in(answers[place]) for place in (places[0], places[2])] == [0, 0]


NOTHING = SimpleNamespace(brokers={}, topics={"a": SimpleNamespace(partitions={})})


@pytest.mark.parametrize("offset", [None, -1001, -1, 0])
def test_after_a_question_that_failed_the_metadata_is_believed_no_more(offset: int | None) -> None:
    known = leaders.Leaders()
    known.learn(NOTHING, {}, time.monotonic(), 0)  # type: ignore[arg-type]
    place, answer = TopicPartition("a", 0), Future[Any]()
    assert known.known([place])
    assert not known.known([place, TopicPartition("b", 0)])
    if offset is None:
        answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
    else:
        answer.set_result(SimpleNamespace(offset=offset))
    known.judge(answer)
    assert known.known([place]) is known.cached([place]) is (offset in (-1, 0))
    known.learn(NOTHING, {}, time.monotonic(), 0)  # type: ignore[arg-type]
    assert known.known([place]) is (offset in (-1, 0))  # it was asked for before the doubt


def test_an_answer_that_fails_does_not_refer_to_the_client() -> None:
    """librdkafka's thread holds the answer, and must not be the one that destroys the client."""
    admin = LeaderCachingAdmin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    (answer,) = request_offsets(admin, "", [("a", 0)], latest(), 0.2).values()
    assert isinstance(answer.exception(10), KafkaException)
    client = ref(admin)
    del admin
    eventually(lambda: client() is None, what="the client has ended")
