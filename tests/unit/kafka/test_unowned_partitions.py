"""When a member hears that its group leaves partitions to nobody."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.conditions import eventually

from streams.kafka.unowned_partitions import UnownedPartitions

SESSION = 10.0


class World:
    """A group of four partitions, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.state = "Stable"
        self.shares: list[bytes | None] = []
        self.silent = False
        self.asked = 0
        admin: Any = self
        self.unowned = UnownedPartitions(lambda: admin, "group", "in", 4, SESSION, lambda: self.now)

    def list_groups(self, group: str, timeout: float) -> list[Any]:
        self.asked += 1
        if self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        members = [SimpleNamespace(assignment=share) for share in self.shares]
        return [SimpleNamespace(id=group, state=self.state, members=members)]

    def told(self, seconds: float = 0.0) -> list[int]:
        """What is told after so many seconds, each with a look and its answer."""
        until = self.now + seconds
        while True:
            found = self.looked()
            if found or self.now >= until:
                return found
            self.now += 1

    def looked(self) -> list[int]:
        found = self.unowned.lasting(joining=False)
        answer = self.unowned._answer
        if not found and answer is not None:
            eventually(answer.done, what="the answer is there")
            found = self.unowned.lasting(joining=False)
        return sorted(found)


def share(*partitions: int, topic: str = "in") -> bytes:
    """A member's assignment, with another topic before it and user data behind."""
    packed = struct.pack(">hi", 0, 2)
    for name, owned in ((b"other", (0, 3)), (topic.encode(), partitions)):
        packed += struct.pack(f">h{len(name)}si{len(owned)}i", len(name), name, len(owned), *owned)
    return packed + struct.pack(">i3s", 3, b"abc")


@pytest.fixture
def world() -> World:
    return World()


def test_what_nobody_owns_for_a_session_is_told_once_in_each(world: World) -> None:
    world.shares = [share(1), share(2), share(0, topic="in2"), b"", None]
    assert world.told(SESSION - 1) == []
    assert world.told(1) == [0, 3]
    assert world.told(SESSION - 1) == []
    assert world.told(1) == [0, 3]


def test_who_sees_an_owner_of_each_partition_asks_no_more(world: World) -> None:
    world.shares = [share(0, 1), share(2)]
    assert world.told(3) == []
    world.shares = [share(0, 1), share(2, 3)]
    assert world.told(1) == []
    asked, world.shares = world.asked, []
    assert world.told(3 * SESSION) == []
    assert world.asked == asked


def test_who_joins_again_asks_again(world: World) -> None:
    world.shares = [share(0, 1, 2, 3)]
    assert world.told(1) == []
    world.shares = [share(0, 1, 2)]
    assert world.unowned.lasting(joining=True) == frozenset()
    assert world.told(SESSION) == [3]


def test_a_rebalance_and_a_silent_broker_begin_the_time_anew(world: World) -> None:
    world.shares = [share(0, 1, 2)]
    assert world.told(SESSION - 1) == []
    world.state = "PreparingRebalance"
    assert world.told(1) == []
    world.state = "Stable"
    assert world.told(SESSION - 1) == []
    world.silent = True
    assert world.told(1) == []
    world.silent = False
    assert world.told(SESSION) == []
    assert world.told(1) == [3]


def test_an_answer_from_before_a_join_does_not_count(world: World) -> None:
    assert world.unowned.lasting(joining=False) == frozenset()
    world.now += SESSION
    assert world.unowned.lasting(joining=True) == frozenset()
    world.shares = [share(0, 1, 2, 3)]
    assert world.told(3 * SESSION) == []
