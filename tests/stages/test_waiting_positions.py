"""A step that changes and sends nothing: its positions wait for a commit, about a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from support.counting import HUGE, counting_stage, counting_topology

from streams.runtime.driver import TopologyTestDriver
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Context, Processor, Record

TOPOLOGY = counting_topology(2, ("in", "also"))


class Listening(Processor):
    """It remembers keys in memory, and writes and forwards only what it is told to `keep`."""

    def __init__(self, partition: int) -> None:
        self.heard: list[bytes | None] = []
        self.commits = self._durable = 0

    def restored(self, ctx: Context) -> None:
        self.heard = []

    def process(self, record: Record, ctx: Context) -> None:
        self.heard.append(record.key)
        if record.value != b"hear":
            ctx.store("counts").put(record.key or b"", b",".join(key or b"" for key in self.heard))
            ctx.forward("out", record.key, b"x" * HUGE if record.value == b"huge" else b"kept")

    def undone(self, ctx: Context) -> None:
        """What was heard since the last step is forgotten."""
        del self.heard[self._durable :]

    def committed(self) -> None:
        self.commits, self._durable = self.commits + 1, len(self.heard)


@pytest.fixture
def driver() -> TopologyTestDriver:
    stage = replace(counting_stage(inputs=("in", "also")), processor=Listening)
    return TopologyTestDriver([stage], TOPOLOGY, partitions=2)


def commits(driver: TopologyTestDriver, act: Callable[[], object]) -> list[set[int]]:
    """The partitions of each transaction that something takes."""
    transactions = driver.run_of("counting").commits
    made: list[set[int]] = []
    commit = transactions.commit

    def noting(tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        made.append({task.partition for task in tasks})
        commit(tasks, alone=alone)

    transactions.commit = noting  # type: ignore[method-assign]
    act()
    transactions.commit = commit  # type: ignore[method-assign]
    return made


def offsets(driver: TopologyTestDriver) -> dict[tuple[str, int], int]:
    return {place: at for place, at in driver.run_of("counting").offsets.items() if at}


def listening(driver: TopologyTestDriver, partition: int = 0) -> Listening:
    found = driver.task("counting", partition)._processor._processor
    assert isinstance(found, Listening)
    return found


def hear(driver: TopologyTestDriver, key: bytes, topic: str = "in", partition: int = 0) -> None:
    driver.pipe(topic, key, b"hear", partition=partition)


def test_it_is_committed_within_a_second_and_once(driver: TopologyTestDriver) -> None:
    def busy() -> None:
        for _ in range(7):
            hear(driver, b"a")
            driver.advance(0.1)

    assert commits(driver, busy) == []
    assert offsets(driver) == {}
    assert commits(driver, lambda: driver.advance(0.3)) == [{0}]
    assert offsets(driver) == {("in", 0): 7}
    assert commits(driver, lambda: driver.advance(60)) == []


def test_it_goes_with_the_next_output_of_any_input_or_partition(
    driver: TopologyTestDriver,
) -> None:
    hear(driver, b"a")
    hear(driver, b"b", topic="also")
    hear(driver, b"c", partition=1)
    assert commits(driver, lambda: driver.pipe("in", b"d", b"keep")) == [{0, 1}]
    assert offsets(driver) == {("in", 0): 2, ("also", 0): 1, ("in", 1): 1}
    assert commits(driver, lambda: driver.advance(60)) == []


def test_the_processor_is_told_at_once_that_its_writes_are_durable(
    driver: TopologyTestDriver,
) -> None:
    hear(driver, b"a")
    assert listening(driver).commits == 1
    driver.advance(0.5)
    assert listening(driver).commits == 1, "it is not told again"


def test_what_was_not_committed_is_read_again_and_decided_the_same(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("in", b"first", b"keep")
    hear(driver, b"a")
    hear(driver, b"b")
    driver.restart("counting")
    assert driver.task("counting").positions["in"] == 1
    driver.pipe("in", b"last", b"keep")
    assert listening(driver).heard == [b"a", b"b", b"last"]
    assert driver.store("counting", "counts").get(b"last") == b"a,b,last"
    assert [record.key for record in driver.output("out")] == [b"first", b"last"]


def test_a_refused_output_takes_back_nothing_of_the_steps_before(
    driver: TopologyTestDriver,
) -> None:
    hear(driver, b"a")
    hear(driver, b"b", partition=1)
    with driver.together():
        driver.pipe("in", b"guilty", b"huge")
        driver.pipe("in", b"good", b"keep")
    assert listening(driver).heard == [b"a", b"good"]
    assert listening(driver, 1).heard == [b"b"]
    assert [record.key for record in driver.output("out")] == [b"good"]
    assert len(driver.output("dlq")) == 1
    assert driver.task("counting").positions["in"] == 3
    driver.advance(1)
    assert offsets(driver) == {("in", 0): 3, ("in", 1): 1}


@pytest.mark.parametrize("at", ["positions_sent", "before_commit", "after_commit"])
def test_a_crash_in_the_commit_of_positions_loses_nothing(
    driver: TopologyTestDriver, at: str
) -> None:
    hear(driver, b"a")
    driver.crash("counting", at)  # type: ignore[arg-type]
    driver.advance(1)
    driver.advance(2)
    assert driver.run_of("counting").commits.armed is None, "it did not die"
    assert offsets(driver) == {("in", 0): 1}
    assert not driver.output("out")
