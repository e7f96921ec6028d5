"""Offsets that Faust skipped are read again; those that hold no record cost nothing."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import IllegalStateError
from faust.types import TP
from support.operator_cluster import make_event

from streams.analytics.counting import Counting, CountingApp, counting_app
from streams.analytics.partition import CountedPartition
from streams.analytics.partitions import Assignment, Partitions
from streams.serde.codec import ENVELOPE
from streams.settings import load_settings
from streams.state.memory import MemoryTables

PLACE = TP("events", 0)
WEEK = 7 * 86_400_000


class OnePartition:
    """The tables of one partition in memory."""

    def __init__(self) -> None:
        self.counted = CountedPartition(MemoryTables(), WEEK)
        self.assignment = Assignment("", 1, {PLACE: self.counted})

    def get(self, tp: TP) -> CountedPartition | None:
        return self.assignment.open.get(tp)


@pytest.fixture
def partition() -> OnePartition:
    return OnePartition()


class Consumer:
    """Remembers where it was told to seek."""

    def __init__(self) -> None:
        self.sought: list[Mapping[TP, int]] = []
        self.assigned = {PLACE}

    def assignment(self) -> set[TP]:
        return self.assigned

    async def seek_wait(self, positions: Mapping[TP, int]) -> None:
        self.sought.append(positions)


class Played:
    """The counting of one partition, with a consumer that is played."""

    def __init__(self, partition: OnePartition) -> None:
        self.consumer = Consumer()
        app = SimpleNamespace(
            consumer=self.consumer, counted_to=lambda _: partition.counted.position
        )
        self.counting = Counting(cast(CountingApp, app), cast(Partitions, partition))

    async def give(self, follows: int | None, offset: int) -> None:
        value = ENVELOPE.encode(make_event(f"e{offset}"))
        message: Any = SimpleNamespace(
            tp=PLACE,
            partition=0,
            offset=offset,
            follows=follows,
            key=b"acme",
            value=value,
            timestamp=1_795_000_000.0,
        )
        await self.counting.handle(message)

    async def sought(self) -> list[Mapping[TP, int]]:
        """Where it reads again, now."""
        self.consumer.sought.clear()
        await self.counting.read_again()
        return self.consumer.sought


async def test_a_partition_is_read_again_until_its_next_record_comes_though_it_is_idle(
    partition: OnePartition,
) -> None:
    played = Played(partition)
    assert await played.sought() == []
    await played.give(0, 0)
    await played.give(5, 5)
    assert await played.sought() == [{PLACE: 1}]
    await played.give(5, 5)  # Faust dropped 1 to 4, and there is no record behind 5
    assert await played.sought() == [{PLACE: 1}]
    for offset in range(1, 6):
        await played.give(offset, offset)
    assert await played.sought() == []
    assert partition.counted.position == 6


async def test_a_partition_that_went_is_not_read_again(partition: OnePartition) -> None:
    played = Played(partition)
    await played.give(5, 5)
    played.consumer.assigned.clear()
    assert await played.sought() == []


async def test_a_hundred_million_offsets_without_a_record_cost_nothing(
    partition: OnePartition, tmp_path: Path
) -> None:
    """A stage that was off for longer than its topic keeps records finds them gone."""
    app = counting_app(load_settings({}, data_dir=tmp_path), cast(Partitions, partition), print)
    consumer: Any = app.consumer
    last = 100_000_000
    consumer._acked[PLACE].append(last)
    consumer._acked_index[PLACE].add(last)
    consumer._committed_offset[PLACE] = 10
    partition.counted.advance(last, 0)
    tracemalloc.start()
    await consumer._add_gap(PLACE, 11, last)
    assert consumer._new_offset(PLACE) == last + 1
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 1_000_000
    assert consumer._new_offset(PLACE) is None


async def test_a_seek_leaves_out_a_partition_that_has_gone_meanwhile(
    partition: OnePartition, tmp_path: Path
) -> None:
    app = counting_app(load_settings({}, data_dir=tmp_path), cast(Partitions, partition), print)
    thread = cast(Any, app.consumer)._thread
    thread._consumer = client = Client()
    await thread._seek_wait(client, {TP("events", 1): 7, PLACE: 5})
    assert client.sought == {PLACE: 5}
    record = SimpleNamespace(offset=5)
    assert [thread._fetched(TP("events", at), record).follows for at in (0, 1)] == [5, None]


class Client:
    """A Kafka client that has one partition, and refuses others as aiokafka does."""

    def __init__(self) -> None:
        self.sought: dict[TP, int] = {}

    def assignment(self) -> set[TP]:
        return {PLACE}

    def seek(self, tp: TP, offset: int) -> None:
        if tp != PLACE:
            raise IllegalStateError(f"No current assignment for partition {tp}")
        self.sought[tp] = offset

    async def position(self, tp: TP) -> int:
        return self.sought[tp]
