"""Bodies of one partition are read whatever becomes of another."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from streams.errors import PermanentError, TransientError
from streams.kafka import payload_reader, tail
from streams.kafka.payload_lane import Body, Lane
from streams.kafka.payload_reader import PayloadReader
from streams.serde.records import PayloadRef
from streams.settings import Settings

GARBAGE = 7_611_410_075_462_884_242


@dataclass
class Message:
    _partition: int
    _offset: int
    _value: bytes | None
    _error: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "payloads"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value


@dataclass
class Log:
    """Partitions of `payloads`; `leaderless` ones give nothing. Offsets before `start` are gone.

    The offsets of `damaged` are one batch, of which the broker's disk has lost some bits. Then
    librdkafka goes on at an offset that these name; that it is not there is `late`, and may be told
    after the next seek.
    """

    records: dict[int, list[bytes]] = field(default_factory=dict)
    start: int = 0
    damaged: range = range(0)
    leaderless: set[int] = field(default_factory=set)
    sought: list[tuple[int, int]] = field(default_factory=list)
    late: list[Message] = field(default_factory=list)
    polls: int = 0
    batch: int = 7


class Consumer:
    log: Log

    def __init__(self, config: dict[str, Any]) -> None:
        assert config["auto.offset.reset"] == "error"
        self.places: dict[int, int] = {}
        self.read = 0
        self.due: list[Message] = []

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        for place in places:
            assert place.partition not in self.places
            self.places[place.partition] = place.offset
            self.log.sought.append((place.partition, place.offset))
        self.due, self.log.late = self.log.late, []

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for place in places:
            del self.places[place.partition]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return places

    def poll(self, timeout: float) -> Message | None:
        self.log.polls += 1
        if self.due:
            return self.due.pop()
        for partition in sorted(self.places, key=lambda p: (self.log.polls + p) % 7):
            offset = self.places[partition]
            if partition in self.log.leaderless:
                continue
            if offset < self.log.start:
                gone = KafkaError(KafkaError._AUTO_OFFSET_RESET, "gone")
                return Message(partition, offset, None, gone)
            if offset in self.log.damaged:
                gone = KafkaError(KafkaError._AUTO_OFFSET_RESET, "gone")
                self.log.late.append(Message(partition, GARBAGE, None, gone))
                self.places[partition] = -1
                damaged = KafkaError(KafkaError._BAD_MSG, "checksum")
                return Message(partition, self.log.damaged.start, None, damaged)
            if offset < len(self.log.records[partition]):
                self.places[partition] += 1
                self.read += 1
                return Message(partition, offset, self.log.records[partition][offset])
        return None

    def consume(self, most: int, timeout: float) -> list[Message]:
        found = (self.poll(timeout) for _ in range(min(most, self.log.batch)))
        return [message for message in found if message is not None]

    def close(self) -> None: ...


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.log = Consumer.log = Log(
            {p: [b"%d:%d" % (p, at) for at in range(1_000)] for p in range(4)}
        )
        monkeypatch.setattr(tail, "Consumer", Consumer)
        monkeypatch.setattr(payload_reader, "_IDLE_SECONDS", 0)
        self.reader = PayloadReader(Settings(), "worker", lambda: self.now)

    def steps(self, count: int = 60) -> None:
        for _ in range(count):
            self.reader.step()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def ref(partition: int, *offsets: int) -> PayloadRef:
    return PayloadRef(partition, offsets, 1, "k")


def test_chunks_come_in_their_order_and_a_near_one_is_read_up_to(world: World) -> None:
    one, two = world.reader.fetch(ref(1, 5, 7)), world.reader.fetch(ref(1, 30))
    world.steps()
    assert one.result(0) == [b"1:5", b"1:7"]
    assert two.result(0) == [b"1:30"]
    assert world.log.sought == [(1, 5)]
    far, back = world.reader.fetch(ref(1, 900)), world.reader.fetch(ref(1, 2))
    world.steps()
    assert (far.result(0), back.result(0)) == ([b"1:900"], [b"1:2"])
    assert world.log.sought == [(1, 5), (1, 900), (1, 2)]


def test_a_partition_without_a_leader_keeps_no_other_waiting(world: World) -> None:
    world.log.leaderless = {1}
    stuck = [world.reader.fetch(ref(1, at)) for at in (3, 4)]
    fine = [world.reader.fetch(ref(partition, 8)) for partition in (0, 2, 3)]
    world.steps()
    assert [future.result(0) for future in fine] == [[b"0:8"], [b"2:8"], [b"3:8"]]
    assert not any(future.done() for future in stuck)
    world.now += 29.9
    late = world.reader.fetch(ref(1, 5))
    world.steps()
    assert not any(future.done() for future in (*stuck, late))
    world.now += 0.1
    world.steps()
    for future in stuck:
        with pytest.raises(TransientError, match=r"payloads:1:[34] could not be read in time"):
            future.result(0)
    assert not late.done()
    world.log.leaderless = set()
    world.steps()
    assert late.result(0) == [b"1:5"]


def test_patience_begins_anew_whenever_the_partition_gives(world: World) -> None:
    body = world.reader.fetch(ref(0, 1, 2, 600))
    for world.now in (0, 20, 40, 60):
        world.steps(1)
    world.steps(20)
    assert body.result(0) == [b"0:1", b"0:2", b"0:600"]


def test_what_retention_took_is_gone_for_good_and_the_rest_is_read(world: World) -> None:
    world.log.start = 100
    gone, there = world.reader.fetch(ref(2, 99)), world.reader.fetch(ref(2, 100))
    world.steps()
    with pytest.raises(PermanentError, match="payloads:2:99 is gone"):
        gone.result(0)
    assert there.result(0) == [b"2:100"]


def test_a_damaged_batch_fails_its_own_bodies_for_now_and_no_other(world: World) -> None:
    world.log.damaged = range(50, 60)
    before, inside, last, behind, across = (
        world.reader.fetch(ref(2, *offsets)) for offsets in ((45,), (50,), (59,), (60,), (48, 63))
    )
    world.steps()
    assert [body.result(0) for body in (before, behind)] == [[b"2:45"], [b"2:60"]]
    assert across.result(0) == [b"2:48", b"2:63"]
    for body in (inside, last):
        with pytest.raises(TransientError, match=r"payloads, partition 2: .* damaged batch at"):
            body.result(0)
    world.log.damaged = range(0)
    mended = world.reader.fetch(ref(2, 50))
    world.steps()
    assert mended.result(0) == [b"2:50"]


def test_who_no_longer_waits_is_passed_over(world: World) -> None:
    world.log.leaderless = {0}
    first, second = world.reader.fetch(ref(0, 1)), world.reader.fetch(ref(0, 2))
    world.steps(2)
    assert second.cancel()
    world.log.leaderless = set()
    world.steps()
    assert first.result(0) == [b"0:1"]


def test_an_empty_body_for_which_nobody_waits_breaks_no_reader(world: World) -> None:
    left, wanted = world.reader.fetch(ref(0)), world.reader.fetch(ref(0))
    assert left.cancel()
    world.steps(1)
    assert wanted.result(0) == []


def test_a_partition_that_nobody_waits_for_is_left_while_others_are_read(world: World) -> None:
    world.reader.fetch(ref(0, 1))
    world.steps()
    world.log.leaderless = {3}
    world.reader.fetch(ref(3, 1))
    world.steps(5)
    consumer: Any = world.reader._tail._consumer
    assert sorted(consumer.places) == [0, 3]
    assert 10 < consumer.places[0] < 100
    world.steps(30)
    assert list(consumer.places) == [3]
    assert consumer.read < 150


def test_a_body_that_was_read_before_it_was_asked_for_costs_no_seek(world: World) -> None:
    first = world.reader.fetch(ref(0, 1))
    world.steps(1)
    assert not first.done()
    later = [world.reader.fetch(ref(0, at)) for at in (2, 5, 8, 9, 3)]
    world.steps(4)
    assert [f.result(0) for f in (first, *later)] == [[b"0:%d" % at] for at in (1, 2, 5, 8, 9, 3)]
    assert world.log.sought == [(0, 1)]


def test_large_records_that_nobody_asked_for_end_the_reading_ahead(world: World) -> None:
    world.log.records[0] = [b"x" * 300_000] * 50
    world.reader.fetch(ref(0, 1))
    world.steps()
    world.log.leaderless = {3}
    world.reader.fetch(ref(3, 1))
    world.steps(20)
    consumer: Any = world.reader._tail._consumer
    assert list(consumer.places) == [3]
    assert consumer.read < 20


def test_bodies_that_wait_are_read_without_waiting_for_another_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [world.reader.fetch(ref(0, offset)) for offset in range(20)]
    world.steps(1)
    monkeypatch.setattr(payload_reader, "_IDLE_SECONDS", 3_600)
    while not all(body.done() for body in bodies):
        world.steps(1)
    assert [body.result(0) for body in bodies] == [[b"0:%d" % offset] for offset in range(20)]


def test_any_mixture_of_bodies_is_read_right(world: World) -> None:
    import random

    rng = random.Random(1)
    asked = []
    for _ in range(300):
        partition, at = rng.randrange(4), rng.randrange(990)
        asked.append((partition, at, world.reader.fetch(ref(partition, at, at + 3))))
        if rng.random() < 0.3:
            world.steps(rng.randrange(20))
    world.steps(20_000)
    for partition, at, future in asked:
        assert future.result(0) == [b"%d:%d" % (partition, at), b"%d:%d" % (partition, at + 3)]


def test_a_body_behind_waits_for_no_more_than_a_round() -> None:
    """Bodies ahead of it may be asked for without end, and each read makes the others wait."""

    def asked(offset: int, at: float) -> Body:
        return Body(PayloadRef(0, (offset,), 1, "key"), Future(), at)

    behind, ahead, joins, late = asked(3, 1.0), asked(50, 1.0), asked(60, 5.9), asked(70, 6.0)
    lane = Lane(0, 0.0, [behind, ahead], position=40)
    assert lane.next_body(1.0) is ahead
    lane.bodies += [late, joins]
    assert lane.next_body(6.0) is joins
    assert lane.next_body(6.0) is behind
    assert lane.next_body(6.0) is late
    assert lane.next_body(6.0) is None
