"""Tails for people ask the broker a few times a second where records flow, not once for each.

They read at once again if somebody waits for a record.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from streams.kafka import rest as resting
from streams.kafka import tail as tails
from streams.kafka.tail import PEOPLES_SECONDS, Tail
from streams.settings import Settings

PLACES = [("jobs", 0), ("jobs", 1)]


class Consumer:
    """Gives each of `waiting` once; `paused` are the partitions that it does not read."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.waiting: list[list[Any]] = []
        self.paused = set[int]()
        self._given: list[Any] = []

    def get_watermark_offsets(self, _: TopicPartition, __: float) -> tuple[int, int]:
        return 3, 5

    def incremental_assign(self, _: Sequence[TopicPartition]) -> None:
        """Take note of nothing."""

    def pause(self, places: Sequence[TopicPartition]) -> None:
        self.paused |= {place.partition for place in places}

    def resume(self, places: Sequence[TopicPartition]) -> None:
        self.paused -= {place.partition for place in places}

    def poll(self, _: float) -> Any:
        assert not self.paused
        self._given = self.waiting.pop(0) if self.waiting else []
        return self._given.pop(0) if self._given else None

    def consume(self, _: int, __: float) -> list[Any]:
        return self._given


class Clock:
    """Time that passes only in the test, and waits that end at once."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


def record(offset: int, partition: int = 0) -> Any:
    return SimpleNamespace(
        topic=lambda: "jobs",
        partition=lambda: partition,
        offset=lambda: offset,
        error=lambda: None,
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(resting, "time", stopped)
    return stopped


@pytest.fixture
def hurry() -> threading.Event:
    return threading.Event()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, hurry: threading.Event) -> tuple[Tail, Any]:
    """A tail of two partitions, at their ends, and its consumer."""
    monkeypatch.setattr(tails, "Consumer", Consumer)
    tail = Tail(Settings(bootstrap="127.0.0.1:1"), "console", rest=PEOPLES_SECONDS, hurry=hurry)
    tail.begin_at_end(PLACES, 1)
    return tail, tail._consumer


def offsets(tail: Tail) -> list[int | None]:
    return [message.offset() for message in tail.read(1_000, 0)]


def test_it_rests_after_records_came(opened: tuple[Tail, Any], clock: Clock) -> None:
    tail, consumer = opened
    consumer.waiting = [[], [record(5), record(6)], [record(7)]]
    assert offsets(tail) == []
    assert offsets(tail) == [5, 6], "without records it is there for the next one"
    assert consumer.paused == {0, 1}
    assert offsets(tail) == []
    clock.now += PEOPLES_SECONDS
    assert offsets(tail) == [7]


def test_a_wait_until_after_the_rest_reads_behind_it(
    opened: tuple[Tail, Any], clock: Clock
) -> None:
    tail, consumer = opened
    consumer.waiting = [[record(5)], [record(6)]]
    assert offsets(tail) == [5]
    assert [message.offset() for message in tail.read(1_000, PEOPLES_SECONDS)] == [6]


def test_who_waits_for_a_record_ends_the_rest(
    opened: tuple[Tail, Any], clock: Clock, hurry: threading.Event
) -> None:
    tail, consumer = opened
    consumer.waiting = [[record(5)], [record(6)], [record(7)]]
    assert offsets(tail) == [5]
    hurry.set()
    assert offsets(tail) == [6]
    assert offsets(tail) == [7], "and there is none meanwhile"
    assert not consumer.paused


def test_a_flood_is_read_without_rest(opened: tuple[Tail, Any], clock: Clock) -> None:
    tail, consumer = opened
    consumer.waiting = [[record(5 + n) for n in range(800)], [record(805)]]
    assert len(offsets(tail)) == 800
    assert offsets(tail) == [805]


def test_there_is_no_rest_before_the_ends(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(tails, "Consumer", Consumer)
    tail = Tail(Settings(bootstrap="127.0.0.1:1"), "console", rest=PEOPLES_SECONDS)
    tail.begin_at_start(PLACES, 1)
    tail._consumer.waiting = [[record(3), record(4)], [record(3, 1)], [record(4, 1)], [record(5)]]  # type: ignore[attr-defined]
    assert offsets(tail) == [3, 4]
    assert offsets(tail) == [3]
    assert not tail.caught_up
    assert offsets(tail) == [4]
    assert tail.caught_up, "also if the broker tells no end"
    assert offsets(tail) == []
