"""A partition is read again in parts, up to the end that it had at first, whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition
from support.conditions import eventually

from streams.delivery import kafka_history
from streams.delivery.history import Part
from streams.delivery.kafka_history import KafkaHistory
from streams.errors import StageFailed
from streams.kafka import tail
from streams.settings import Settings

SINCE = 1_000_000


class Message:
    def __init__(self, place: tuple[str, int], offset: int, error: KafkaError | None = None):
        self._place, self._offset, self._error = place, offset, error

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._offset

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"%d" % self._offset

    def headers(self) -> None:
        return None


@dataclass
class Log:
    """Partitions of 2,500 records; `first` is the answer for a time, `errors` come before reads."""

    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    first: int = 0
    hidden: set[int] = field(default_factory=set)
    silent: int = 0
    leaderless: set[int] = field(default_factory=set)
    errors: list[tuple[int, KafkaError]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    questions: int = 0

    def end(self, place: tuple[str, int]) -> int:
        return self.ends.setdefault(place, 2_500)

    def answers(self, _: Any, __: str, places: list[Any], spec: Any, ___: float) -> dict[Any, Any]:
        answer, (place,) = Future[Any](), places
        self.questions += 1
        if place[1] in self.leaderless:
            return {place: answer}
        if self.silent:
            self.silent -= 1
            answer.set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
        else:
            at = spec._value
            self.times += [at] if at >= 0 else []
            offset = self.end(place) if at < 0 else self.first
            answer.set_result(SimpleNamespace(offset=offset))
        return {place: answer}


class Consumer:
    log: Log

    def __init__(self, config: dict[str, Any]) -> None:
        assert config["isolation.level"] == "read_committed"
        self.places: dict[tuple[str, int], int] = {}
        self.eof: set[tuple[str, int]] = set()

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        for place in places:
            assert (place.topic, place.partition) not in self.places
            self.places[place.topic, place.partition] = place.offset

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for place in places:
            del self.places[place.topic, place.partition]
            self.eof.discard((place.topic, place.partition))

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return places

    def poll(self, _: float) -> Message | None:
        for place, offset in self.places.items():
            if self.log.errors and self.log.errors[0][0] == place[1]:
                self.places[place] += 1
                return Message(place, offset, self.log.errors.pop(0)[1])
            while self.places[place] < self.log.end(place):
                self.places[place] += 1
                if self.places[place] - 1 not in self.log.hidden:
                    return Message(place, self.places[place] - 1)
            if place not in self.eof:
                self.eof.add(place)
                return Message(place, self.places[place], KafkaError(KafkaError._PARTITION_EOF))
        return None

    def consume(self, most: int, timeout: float) -> list[Message]:
        found = (self.poll(timeout) for _ in range(most))
        return [message for message in found if message is not None]

    def close(self) -> None: ...


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    Consumer.log = found = Log()
    monkeypatch.setattr(tail, "Consumer", Consumer)
    monkeypatch.setattr(kafka_history, "request_offsets", found.answers)
    monkeypatch.setattr(kafka_history, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(kafka_history, "_AGAIN_SECONDS", 0.01)
    return found


@pytest.fixture
def failures() -> list[Exception]:
    return []


@pytest.fixture
def history(log: Log, failures: list[Exception]) -> Iterator[KafkaHistory]:
    found = KafkaHistory(Settings(bootstrap="127.0.0.1:1"), failures.append)
    found.start()
    yield found
    found.stop()


def part(history: KafkaHistory, partition: int, offset: int = -1, topic: str = "events") -> Part:
    return eventually(
        lambda: history.read(topic, partition, SINCE, offset), what=f"part of {partition}"
    )


def offsets(part: Part) -> list[int]:
    return [record.offset for record in part.records]


def test_parts_follow_one_another_up_to_the_end_that_the_topic_had(
    history: KafkaHistory, log: Log
) -> None:
    first = part(history, 0)
    log.ends["events", 0] = 9_000
    second = part(history, 0, first.position)
    third = part(history, 0, second.position)
    assert [offsets(first), offsets(second)] == [[*range(1_000)], [*range(1_000, 2_000)]]
    assert offsets(third) == [*range(2_000, 2_500)]
    assert [each.done for each in (first, second, third)] == [False, False, True]
    assert log.questions == 2
    assert {record.topic for record in first.records} == {"events"}


def test_a_part_is_given_again_to_a_stage_that_went_back(history: KafkaHistory) -> None:
    first = part(history, 0)
    assert history.read("events", 0, SINCE, -1) is first
    assert offsets(part(history, 0, 500))[0] == 500


def test_reading_begins_a_minute_earlier_and_never_before_time_began(
    history: KafkaHistory, log: Log
) -> None:
    log.first = 7
    assert offsets(part(history, 0))[0] == 7
    eventually(lambda: history.read("events", 1, 5, -1), what="a part")
    assert log.times == [SINCE - 60_000, 0]


def test_nothing_since_that_time_is_done_at_once(history: KafkaHistory, log: Log) -> None:
    log.first = OFFSET_END
    assert part(history, 0) == Part([], 2_500, done=True)


def test_markers_behind_the_last_record_belong_to_what_was_read(
    history: KafkaHistory, log: Log
) -> None:
    log.hidden, log.first = set(range(2_450, 2_500)), 2_400
    found = part(history, 0)
    assert (offsets(found), found.position, found.done) == ([*range(2_400, 2_450)], 2_500, True)


def test_what_was_forgotten_ends_where_the_topic_ends_then(history: KafkaHistory, log: Log) -> None:
    log.first = 2_400
    history.read("events", 0, SINCE, -1)
    eventually(lambda: log.questions == 2, what="the first questions")
    history.forget(0)
    log.ends["events", 0] = 2_600
    assert offsets(part(history, 0)) == [*range(2_400, 2_600)]


def test_a_partition_without_a_leader_keeps_no_other_waiting(
    history: KafkaHistory, log: Log
) -> None:
    log.leaderless = {0}
    assert history.read("jobs", 0, SINCE, -1) is None
    assert len(part(history, 1, topic="jobs").records) == 1_000
    assert history.read("jobs", 0, SINCE, -1) is None


def test_a_broker_that_is_away_is_waited_for(history: KafkaHistory, log: Log) -> None:
    log.silent = 3
    assert len(part(history, 0).records) == 1_000


def test_a_record_that_could_not_be_read_is_read_again(history: KafkaHistory, log: Log) -> None:
    log.errors = [(0, KafkaError(KafkaError._BAD_MSG))]
    assert offsets(part(history, 0)) == [*range(1_000)]
    assert log.errors == []


def test_an_error_that_cannot_pass_ends_the_process(
    history: KafkaHistory, log: Log, failures: list[Exception]
) -> None:
    log.errors = [(0, KafkaError(KafkaError._FATAL, "of the client", fatal=True))]
    history.read("events", 0, SINCE, -1)
    eventually(lambda: failures, what="the failure")
    assert isinstance(failures[0], StageFailed)
    assert "the inputs cannot be read again" in str(failures[0])
