"""Offsets are asked for only of leaders that the client knows."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.kafka_under_test import KafkaUnderTest
from support.topics import create_topics

from streams.kafka.offsets import earliest, latest, offset_in, read_offsets, request_offsets
from streams.topology.leader_cache import LeaderCachingAdmin

_LOOKS_FOR_LEADERS = "query partition leaders"
"""A reason that librdkafka logs with a request for metadata."""

Lines = SimpleQueue[logging.LogRecord]


@pytest.fixture
def places(kafka: KafkaUnderTest) -> list[tuple[str, int]]:
    topic = f"leaders-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap, AdminClient(kafka.client()), [NewTopic(topic, 3, 1)])
    return [(topic, number) for number in range(3)]


def lines_of(
    make: Callable[..., AdminClient], client: dict[str, Any], places: list[tuple[str, int]]
) -> list[str]:
    """What librdkafka logs of its requests while a new client asks twice at once."""
    lines: Lines = SimpleQueue()
    logger = logging.Logger("librdkafka", logging.DEBUG)
    logger.addHandler(QueueHandler(lines))
    admin = make({**client, "debug": "metadata", "logger": logger})
    answers = [request_offsets(admin, "", places, spec, 30) for spec in (earliest(), latest())]
    assert [offset_in(each) for answer in answers for each in answer.values()] == [0] * 6
    admin.poll(0)  # hands over the lines
    return [lines.get_nowait().getMessage() for _ in range(lines.qsize())]


def test_a_new_client_looks_for_no_leader_while_it_asks(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    found = lines_of(LeaderCachingAdmin, kafka.client(), places)
    assert found
    assert not any(_LOOKS_FOR_LEADERS in line for line in found)
    assert any(_LOOKS_FOR_LEADERS in line for line in lines_of(AdminClient, kafka.client(), places))


def test_a_topic_that_came_later_is_learned(
    kafka: KafkaUnderTest, places: list[tuple[str, int]]
) -> None:
    admin = LeaderCachingAdmin(kafka.client())
    later = f"later-{uuid.uuid4().hex[:8]}"
    with pytest.raises(KafkaException):
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
