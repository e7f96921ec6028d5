"""What a tail gives, and what each of Kafka's errors does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from streams.kafka import tail as tails
from streams.kafka.failures import Outage
from streams.kafka.tail import Fault, Tail, Unreadable
from streams.settings import Settings

HERE, THERE = ("jobs", 0), ("jobs", 1)
GARBAGE = 7_611_410_075_462_884_242
"""An offset that librdkafka reads from damaged bytes, and at which it then goes on."""


class Message:
    """A record, or with a code what Kafka says of the partition."""

    def __init__(self, partition: int, offset: int, code: int = 0, topic: str = "p.jobs") -> None:
        self._place, self._offset = (topic, partition), offset
        self._error = KafkaError(code, fatal=code == KafkaError._FATAL) if code else None

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


class Consumer:
    """Gives the messages of one batch after the other; `at` are its positions."""

    batches: list[list[Message]]
    at: dict[int, int]

    def __init__(self, config: dict[str, Any]) -> None:
        self.begun: list[tuple[int, int]] = []
        self._left: list[Message] = []
        assert config["isolation.level"] == "read_committed"

    def incremental_assign(self, places: Sequence[TopicPartition]) -> None:
        self.begun += [(place.partition, place.offset) for place in places]

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        self.begun += [(place.partition, -1) for place in places]

    def poll(self, _: float) -> Message | None:
        self._left = self.batches.pop(0) if self.batches else []
        return self._left.pop(0) if self._left else None

    def consume(self, _: int, __: float) -> list[Message]:
        return self._left

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [
            TopicPartition(p.topic, p.partition, self.at.get(p.partition, -1001)) for p in places
        ]


def played(
    monkeypatch: pytest.MonkeyPatch,
    *batches: list[Message],
    tell: Callable[[Fault], object] | None = None,
    outage: Outage | None = None,
) -> Tail:
    """A tail of two partitions from offset 5 on."""
    monkeypatch.setattr(tails, "Consumer", Consumer)
    monkeypatch.setattr(Consumer, "batches", list(batches), raising=False)
    monkeypatch.setattr(Consumer, "at", {}, raising=False)
    tail = Tail(Settings(topic_prefix="p."), "operator", tell=tell, outage=outage)
    tail.begin({HERE: 5, THERE: 5})
    return tail


def begun(tail: Tail) -> list[tuple[int, int]]:
    return tail._consumer.begun[2:]  # type: ignore[attr-defined, no-any-return]


def offsets(tail: Tail) -> list[tuple[int, int]]:
    return [(m.partition() or 0, m.offset() or 0) for m in tail.read(500, 0.1)]


LASTING = [
    (KafkaError._BAD_MSG, "damaged batch at offset 6"),
    (KafkaError.OFFSET_OUT_OF_RANGE, "p.jobs, partition 0: offset 6 was purged"),
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, "p.jobs, partition 0: "),
    (KafkaError.UNKNOWN_TOPIC_OR_PART, "p.jobs, partition 0: "),
]


@pytest.mark.parametrize(("code", "text"), LASTING)
def test_what_comes_before_a_fault_is_given_and_nothing_is_skipped(
    monkeypatch: pytest.MonkeyPatch, code: int, text: str
) -> None:
    batch = [Message(0, 5), Message(0, 6, code), Message(1, 5), Message(0, 7)]
    tail = played(monkeypatch, batch, [Message(0, 6)])
    assert offsets(tail) == [(0, 5), (1, 5)]
    for _ in range(2):
        with pytest.raises(Unreadable, match=text) as raised:
            tail.read(500, 0.1)
    tail.again(raised.value.fault)
    assert begun(tail) == [(0, -1), (0, OFFSET_BEGINNING if raised.value.fault.gone else 6)]
    assert offsets(tail) == [(0, 6)]


def test_an_offset_that_damaged_bytes_name_is_not_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From its beginning on, a reader would take old records for new ones."""
    lost = [Message(0, at, KafkaError._AUTO_OFFSET_RESET) for at in (GARBAGE, 5)]
    tail = played(monkeypatch, [Message(0, 5, KafkaError._BAD_MSG)], *([each] for each in lost))
    assert offsets(tail) == []
    with pytest.raises(Unreadable) as raised:
        tail.read(500, 0.1)
    tail.again(raised.value.fault)
    assert [offsets(tail) for _ in range(2)] == [[], []]
    with pytest.raises(Unreadable, match="offset 5 was purged"):
        tail.read(500, 0.1)
    assert begun(tail) == [(0, -1), (0, 5), (0, -1)]


def test_a_fault_is_told_once_until_a_record_comes_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tails, "_AGAIN_SECONDS", 0.0)
    told = list[Fault]()
    damaged = [Message(0, 5, KafkaError._BAD_MSG)]
    mended = [Message(0, 5), Message(0, 6, KafkaError._BAD_MSG)]
    tail = played(monkeypatch, damaged, damaged.copy(), mended, [Message(0, 6)], tell=told.append)
    assert [offsets(tail) for _ in range(4)] == [[], [], [(0, 5)], [(0, 6)]]
    assert [fault.place for fault in told] == [HERE, HERE]


def test_the_others_are_read_while_one_partition_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "_AGAIN_SECONDS", 60.0)
    damaged = [Message(0, 5, KafkaError._BAD_MSG)]
    tail = played(monkeypatch, damaged, [Message(1, 5)], tell=lambda _: None)
    assert [offsets(tail) for _ in range(2)] == [[], [(1, 5)]]
    assert begun(tail) == [(0, -1)], "librdkafka would ask for the batch without a pause"


def test_a_fault_of_a_dropped_partition_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = played(monkeypatch, [Message(0, 5, KafkaError._BAD_MSG)], [Message(0, 9), Message(1, 5)])
    assert offsets(tail) == []
    tail.drop(HERE)
    assert offsets(tail) == [(1, 5)]


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN])
def test_what_passes_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    denied = Message(0, 0, KafkaError.GROUP_AUTHORIZATION_FAILED, topic="")
    tail = played(monkeypatch, [Message(0, 5, code), denied, Message(0, 5)])
    assert offsets(tail) == [(0, 5)]
    assert offsets(tail) == []


def test_a_consumer_that_can_do_nothing_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = played(monkeypatch, [Message(0, 5, KafkaError._FATAL)])
    with pytest.raises(KafkaException):
        tail.read(500, 0.1)


def test_a_tail_has_caught_up_once_each_partition_was_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = [Message(p, 7, KafkaError._PARTITION_EOF) for p in (0, 1)]
    tail = played(monkeypatch, [Message(0, 5), ends[0]], [Message(0, 8), ends[1]])
    assert offsets(tail) == [(0, 5)]
    assert not tail.caught_up
    assert offsets(tail) == [(0, 8)]
    assert tail.caught_up
    assert tail.next == {HERE: 9, THERE: 7}


def test_positions_pass_markers_but_never_a_damaged_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = played(monkeypatch, [Message(0, 5), Message(1, 5), Message(1, 7, KafkaError._BAD_MSG)])
    assert not tail.reached({HERE: 6})
    tail._consumer.at |= {0: 9, 1: 9}  # type: ignore[attr-defined]
    tail.read(500, 0.1)
    assert tail.positions() == {HERE: 9, THERE: 7}
    assert tail.reached({HERE: 9, THERE: 7})
    assert not tail.reached({THERE: 8})


def test_records_end_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    outage = Outage()
    tail = played(monkeypatch, [Message(0, 5)], outage=outage)
    outage.failed("no broker")
    tail.read(500, 0.1)
    assert outage.over


def test_topics_of_another_prefix_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    two, three = (SimpleNamespace(partitions=range(width)) for width in (2, 3))
    tail = played(monkeypatch)
    listed = SimpleNamespace(topics={"p.jobs": two, "jobs": three})
    monkeypatch.setattr(Consumer, "list_topics", lambda *_, **__: listed, raising=False)
    assert tail.widths(5) == {"jobs": 2}
