"""What is counted of the replicas that the brokers tell of, and what becomes of silence."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.operator.broker_view import BrokerView, ReplicaHealth, health


def part(replicas: Iterable[int], in_sync: Iterable[int], leader: int | None = 1) -> Any:
    nodes = [[SimpleNamespace(id=broker) for broker in each] for each in (replicas, in_sync)]
    led = None if leader is None else SimpleNamespace(id=leader)
    return SimpleNamespace(leader=led, replicas=nodes[0], isr=nodes[1])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (part((1, 2, 3), (3, 1, 2)), ReplicaHealth(1)),
        (part((1,), (1,)), ReplicaHealth(1)),
        (part((1, 2, 3), (1, 3)), ReplicaHealth(1, 1, behind={2: 1})),
        (part((1, 2, 3), (1,)), ReplicaHealth(1, 1, 1, behind={2: 1, 3: 1})),
        (part((1, 2), (1,)), ReplicaHealth(1, 1, behind={2: 1})),
        (part((1, 2, 3), (), None), ReplicaHealth(1, 1, 1, 1, {1: 1, 2: 1, 3: 1})),
        (part((1,), (1,), -1), ReplicaHealth(1, leaderless=1)),
    ],
    ids=["whole", "single", "one away", "two away", "of two", "none left", "no leader"],
)
def test_a_partition_is_counted_by_what_is_wrong_with_it(
    told: Any, expected: ReplicaHealth
) -> None:
    assert health([told]) == expected


def test_a_broker_is_named_with_all_its_replicas_that_are_behind() -> None:
    found = health([part((1, 2, 3), (1, 3)), part((2, 1, 3), (1,)), part((1, 2), (1, 2))])
    assert found == ReplicaHealth(3, 2, 1, 0, {2: 2, 3: 1})


class Admin:
    """Answers as it is told."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout <= 10
        answers: dict[str, Future[Any]] = {}
        for topic, told in self.told.items():
            answers[topic] = Future()
            if isinstance(told, int):
                answers[topic].set_exception(KafkaException(KafkaError(told)))
            else:
                answers[topic].set_result(SimpleNamespace(partitions=told))
        return answers


class Looking:
    """A view, its brokers and its clock."""

    def __init__(self) -> None:
        self.admin, self.now = Admin(), 0.0
        self.view = BrokerView(self.admin, ["events"], lambda: self.now)  # type: ignore[arg-type]

    def look(self, **told: Any) -> dict[str, float]:
        self.admin.told = told
        self.view.look()
        return self.shown()

    def shown(self) -> dict[str, float]:
        return {
            sample.name.removeprefix("tidegate_broker_") + "".join(sample.labels.values()): float(
                sample.value
            )
            for family in self.view.collect()
            for sample in family.samples
        }


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_before_the_first_answer_only_the_silence_is_told(looking: Looking) -> None:
    looking.now = 25.0
    assert looking.shown() == {"silent_seconds": 25}


def test_a_topic_that_is_missing_or_may_not_be_seen_is_left_out(looking: Looking) -> None:
    shown = looking.look(
        events=[part((1, 2, 3), (1, 2))],
        missing=KafkaError.UNKNOWN_TOPIC_OR_PART,
        hidden=KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
    assert shown == {
        "silent_seconds": 0,
        "partitions": 1,
        "under_replicated_partitions": 1,
        "below_min_in_sync_partitions": 0,
        "leaderless_partitions": 0,
        "replicas_behind3": 1,
    }


def test_silence_changes_no_number_and_grows_until_the_next_answer(looking: Looking) -> None:
    looking.look(events=[part((1, 2, 3), (1,))])
    looking.now = 90.0
    shown = looking.look(events=KafkaError._TIMED_OUT)
    assert (shown["silent_seconds"], shown["below_min_in_sync_partitions"]) == (90, 1)
    shown = looking.look(events=[part((1, 2, 3), (1, 2, 3))])
    assert (shown["silent_seconds"], shown["below_min_in_sync_partitions"]) == (0, 0)
    assert "replicas_behind2" not in shown
