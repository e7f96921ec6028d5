"""What a source reads, reads ahead, holds, and forgets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from streams.errors import Fenced, TidegateError
from streams.kafka.failures import Outage
from streams.runtime import held_records
from streams.runtime import source as module
from streams.runtime.processor import WAIT_SECONDS, Record
from streams.runtime.source import Source
from streams.settings import Settings


class Consumer:
    """Hands out `waiting` in order; `asked` is how much was wanted, and for how long at most."""

    def __init__(self, *waiting: Any) -> None:
        self.waiting = list(waiting)
        self.asked: list[tuple[int, float]] = []
        self.committed_offset: Any = None
        self.member = "first"
        self.assigned: set[int] = set()
        self.subscriptions: list[list[str]] = []

    def unsubscribe(self) -> None:
        self.subscriptions.append([])

    def subscribe(self, topics: list[str], **_: Any) -> None:
        self.subscriptions.append(topics)

    def poll(self, timeout: float) -> Any:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, most: int, timeout: float) -> list[Any]:
        self.asked.append((most, timeout))
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    def memberid(self) -> str:
        return self.member

    def committed(self, *_: Any) -> list[Any]:
        return [self.committed_offset]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, 100) for place in places]

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        assert self.assigned.isdisjoint(place.partition for place in places)
        self.assigned |= {place.partition for place in places}

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        assert self.assigned.issuperset(place.partition for place in places)
        self.assigned -= {place.partition for place in places}


def polled() -> None:
    """As of a loop that nobody watches."""


def patient(records: Sequence[Record]) -> bool:
    """As of a stage whose records with offsets from 50 on are in no hurry."""
    return all(record.offset >= 50 for record in records)


def source_of(*waiting: Any, outage: Outage | None = None) -> tuple[Source, Consumer]:
    source = Source(
        "s", ("in",), Settings(bootstrap="127.0.0.1:1"), outage or Outage(), polled, patient
    )
    consumer = Consumer(*waiting)
    source._consumer = consumer  # type: ignore[assignment]
    return source, consumer


def message(offset: int, partition: int = 0) -> Any:
    return SimpleNamespace(
        topic=lambda: "in",
        partition=lambda: partition,
        offset=lambda: offset,
        error=lambda: None,
        timestamp=lambda: (1, 1_000),
        key=lambda: b"k",
        value=lambda: b"v",
        headers=lambda: None,
    )


def failure(code: int, partition: int = 0, topic: str | None = "in") -> Any:
    return SimpleNamespace(
        error=lambda: KafkaError(code),
        topic=lambda: topic,
        partition=lambda: partition,
        offset=lambda: 9,
    )


class Clock:
    """The time that passes while records wait."""

    passed = 0.0

    def monotonic(self) -> float:
        return 1_000.0 + self.passed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(held_records, "time", stopped)
    return stopped


def offsets(source: Source) -> list[int]:
    return [record.offset for record in source.read(0.2)]


def test_each_question_for_records_is_told() -> None:
    """Also those during a commit: a round of many commits is no standstill."""
    source, _ = source_of(message(0))
    asked: list[None] = []
    source._polled = lambda: asked.append(None)
    source.read(0.2)
    source.read_ahead()
    assert len(asked) == 2


def test_a_wait_is_never_so_short_that_it_is_none() -> None:
    source, consumer = source_of()
    for timeout in (0.0, 0.0004, 0.0121, 0.05):
        source.read(timeout)
    waits = [timeout for most, timeout in consumer.asked if most == 1]
    assert waits == [0.0, 0.001, 0.013, 0.05]


def test_an_error_of_one_partition_is_not_no_offset() -> None:
    source, consumer = source_of()
    consumer.committed_offset = TopicPartition("in", 0, -1001)
    assert source.committed([0], 1) == {}
    consumer.committed_offset = SimpleNamespace(
        topic="in",
        partition=0,
        offset=-1001,
        error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
    )
    with pytest.raises(KafkaException):
        source.committed([0], 1)


def test_a_read_waits_for_its_first_record_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a batch is one record when idle, and all that a transaction may hold when behind."""
    monkeypatch.setattr(module, "BATCH", 5)
    source, consumer = source_of(*map(message, range(7)))
    assert offsets(source) == [0, 1, 2, 3, 4]
    assert offsets(source) == [5, 6]
    assert offsets(source) == []
    assert consumer.asked == [(1, 0.2), (4, 0), (1, 0.2), (4, 0), (1, 0.2), (5, 0)]


def test_records_in_no_hurry_wait_for_others(clock: Clock) -> None:
    source, consumer = source_of(message(50))
    assert source.read(0.2) == []
    clock.passed += WAIT_SECONDS / 2
    consumer.waiting.append(message(51))
    assert source.read(0.2) == []
    consumer.waiting.append(message(3))
    assert [record.offset for record in source.read(0.2)] == [50, 51, 3]


def test_they_wait_for_a_bounded_time(clock: Clock) -> None:
    source, consumer = source_of(message(50))
    assert source.read(0.2) == []
    assert source.position("in", 0) == 50, "they are not passed"
    clock.passed += WAIT_SECONDS
    assert [record.offset for record in source.read(0.2)] == [50]
    consumer.waiting.append(message(51))
    assert source.read(0.2) == [], "the next one waits anew"
    assert max(timeout for _, timeout in consumer.asked[2:]) <= 0.2


def test_a_wait_for_others_is_no_longer_than_it_may_be(clock: Clock) -> None:
    source, consumer = source_of(message(50))
    source.read(0.2)
    consumer.asked.clear()
    source.read(0.2)
    assert consumer.asked[0][1] == pytest.approx(WAIT_SECONDS, abs=0.001)


def test_what_was_read_ahead_comes_first_and_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH", 5)
    source, consumer = source_of(*map(message, range(3)))
    source.read_ahead()
    consumer.waiting = [message(offset) for offset in range(3, 7)]
    assert offsets(source) == [0, 1, 2, 3, 4]
    assert consumer.asked == [(5, 0), (2, 0)]
    source.read_ahead()
    source.read_ahead()
    assert offsets(source) == [5, 6]


def test_what_is_held_is_not_yet_read() -> None:
    source, _ = source_of(message(7, partition=1), message(8, partition=1))
    source.read_ahead()
    assert (source.position("in", 0), source.position("in", 1)) == (100, 7)
    assert offsets(source) == [7, 8]
    assert source.position("in", 1) == 100


def test_a_partition_that_starts_anew_forgets_what_is_held_of_it() -> None:
    """A rewound batch comes once more, from its first record on."""
    source, _ = source_of(message(7, partition=1), message(4, partition=2))
    source.start({("in", 1): 5, ("in", 2): 4})
    source.read_ahead()
    source.start({("in", 1): 5})
    assert [(record.partition, record.offset) for record in source.read(0)] == [(2, 4)]


def test_a_rebalance_is_heard_of_also_where_enough_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask for no record is to hear of nothing."""
    monkeypatch.setattr(module, "BATCH", 2)
    source, consumer = source_of(*map(message, range(5)))
    source.read_ahead()
    source.read_ahead()
    assert consumer.asked == [(2, 0), (1, 0)]
    assert offsets(source) == [0, 1, 2, 3]


def test_what_a_consumer_fails_of_is_no_error_of_the_commit_it_reads_in() -> None:
    source, consumer = source_of()

    def fails(most: int, timeout: float) -> list[Any]:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    consumer.consume = fails  # type: ignore[method-assign]
    with pytest.raises(TidegateError, match="consumer failed"):
        source.read_ahead()


def test_errors_are_told_in_their_order() -> None:
    """A process that was fenced in an outage joins anew; it must know of the outage by then."""
    codes = KafkaError._ALL_BROKERS_DOWN, KafkaError.FENCED_INSTANCE_ID
    outage = Outage()
    source, _ = source_of(*map(failure, codes), outage=outage)
    with pytest.raises(Fenced):
        source.read(0)
    assert outage.recent


def test_an_error_that_stays_is_logged_once_a_minute_for_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    source, consumer = source_of()
    with capture_logs() as logs:
        for at in (1000.0, 1059.0, 1060.0):
            now = at
            consumer.waiting = [failure(KafkaError._BAD_MSG, partition) for partition in (1, 2, 1)]
            source.read(0)
    assert [entry["partition"] for entry in logs] == [1, 2, 1, 2]
    assert "partition 1: the broker gives a damaged batch at offset 9" in logs[0]["error"]


def test_an_answer_of_no_partition_that_makes_no_sense_stops_no_partition() -> None:
    source, consumer = source_of(failure(KafkaError._BAD_MSG, topic=None), message(4))
    source.start({("in", 0): 4})
    assert [record.offset for record in source.read(0)] == [4]
    assert consumer.assigned == {0}


def test_a_partition_stands_still_before_a_damaged_batch_and_is_read_again_after_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka goes on behind it, or at the partition's beginning."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    damaged = failure(KafkaError._BAD_MSG, partition=1)
    source, consumer = source_of(
        message(7, partition=1), damaged, message(0, partition=1), damaged, message(4, partition=2)
    )
    source.start({("in", 1): 7, ("in", 2): 4})
    assert [(record.partition, record.offset) for record in source.read(0)] == [(1, 7), (2, 4)]
    assert consumer.assigned == {2}
    now += 0.9
    assert source.to_start_again() == []
    now += 0.1
    assert source.to_start_again() == [("in", 1)]
    assert source.position("in", 1) == 7
    source.start({("in", 1): 8})
    assert (consumer.assigned, source.to_start_again()) == ({1, 2}, [])
    consumer.waiting = [message(8, partition=1), message(0, partition=1), message(5, partition=2)]
    assert [(record.partition, record.offset) for record in source.read(0)] == [(1, 8), (2, 5)]
    assert consumer.assigned == {2}, "it jumped back, so it rests once more"
    now += 61
    source.start({("in", 1): 9})
    consumer.waiting = [message(0, partition=1)]
    assert [(record.partition, record.offset) for record in source.read(0)] == [(1, 0)]
    consumer.waiting = [damaged]
    source.read(0)
    source._revoked(cast(Any, consumer), [TopicPartition("in", 1), TopicPartition("in", 2)])
    assert consumer.assigned == set()
    now += 2
    assert source.to_start_again() == []


def test_a_jump_back_after_a_damaged_batch_may_come_as_late_as_an_outage_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the partition was taken meanwhile, and given back."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    source, consumer = source_of(failure(KafkaError._BAD_MSG, partition=1))
    source.start({("in", 1): 7})
    source.read(0)
    source._revoked(cast(Any, consumer), [TopicPartition("in", 1)])
    now += 3600
    source.start({("in", 1): 7})
    consumer.waiting = [message(0, partition=1)]
    assert source.read(0) == []
    assert source.to_start_again() == []
    now += 1
    assert source.to_start_again() == [("in", 1)]


def test_an_input_that_is_held_back_is_read_again_from_its_position() -> None:
    source, consumer = source_of(message(7), message(4, partition=1))
    source.start({("in", 0): 7, ("in", 1): 4})
    source.read_ahead()
    source.hold_back({("in", 0): 7})
    assert [(record.partition, record.offset) for record in source.read(0)] == [(1, 4)]
    assert (consumer.assigned, source.position("in", 0)) == ({1}, 7)
    source.hold_back({("in", 0): 7})
    assert source.to_start_again() == []
    source.hold_back({})
    assert source.to_start_again() == [("in", 0)]
    source.start({("in", 0): 7})
    assert consumer.assigned == {0, 1}


def test_what_comes_later_does_not_hide_the_first_that_is_held() -> None:
    source, consumer = source_of(message(7), message(8))
    source.read_ahead()
    assert source.position("in", 0) == 7
    consumer.waiting = [message(9), message(3, partition=1)]
    source.read_ahead()
    assert (source.position("in", 0), source.position("in", 1)) == (7, 3)
    source.start({("in", 0): 8})
    assert (source.position("in", 0), source.position("in", 1)) == (100, 3)


def test_a_jump_back_of_a_partition_that_is_taken_in_the_same_call_is_nobodys() -> None:
    source, consumer = source_of(failure(KafkaError._BAD_MSG, partition=1))
    source.start({("in", 1): 7})
    source.read(0)
    source.start({("in", 1): 7})

    def taken_meanwhile(most: int, timeout: float) -> list[Any]:
        if 1 not in source.delivering:
            return []
        source._revoked(cast(Any, consumer), [TopicPartition("in", 1)])
        return [message(0, partition=1)]

    consumer.consume = taken_meanwhile  # type: ignore[method-assign]
    source.read(0)
    assert 1 not in source.delivering
    assert ("in", 1) not in source._resting


def test_an_error_that_was_read_ahead_is_told_by_the_next_read() -> None:
    """While a transaction is committed nobody could act on it."""
    source, _ = source_of(message(0), failure(KafkaError.FENCED_INSTANCE_ID))
    source.read_ahead()
    with pytest.raises(Fenced):
        source.read(0.2)


def test_a_member_rejoins_from_giving_its_id_up_until_it_is_assigned_anew() -> None:
    source, consumer = source_of()
    assert source.joining
    source._assigned(cast(Any, consumer), [])
    assert source.changed
    assert not source.joining
    assert not source.rejoins
    for consumer.member in ("", "second"):
        assert source.rejoins
    source._assigned(cast(Any, consumer), [])
    assert not source.rejoins


def test_a_member_that_joins_anew_waits_for_its_assignment() -> None:
    source, consumer = source_of()
    source._assigned(cast(Any, consumer), [])
    source.join_anew()
    assert consumer.subscriptions == [[], ["in"]]
    assert source.joining
    source._assigned(cast(Any, consumer), [])
    assert not source.joining
