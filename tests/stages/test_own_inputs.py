"""Fused stages: a topic that they alone write is read only for what was not taken in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from support.counting import Passing, fused_stage, fused_topology

from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Context, Record
from streams.runtime.stage import FusedStage


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver([fused_stage()], fused_topology(), partitions=1)


def counted(driver: TopologyTestDriver) -> list[bytes | None]:
    return [record.value for record in driver.output("out")]


def step(driver: TopologyTestDriver) -> list[Record]:
    """One step of the process; what it has to read next."""
    run = driver.run_of("both")
    run.step(punctuate=False)
    return run.unprocessed()


def position(driver: TopologyTestDriver) -> int:
    return driver.task("counting").positions["in"]


def test_own_inputs_are_those_that_a_part_writes_and_no_person() -> None:
    assert fused_stage().own_inputs == {"in"}


def test_what_was_taken_is_not_read(driver: TopologyTestDriver) -> None:
    with driver.together():
        driver.pipe("raw", b"a", b"count")
        driver.pipe("raw", b"a", b"count")
        assert step(driver) == []
    assert position(driver) == 2
    assert counted(driver) == [b"1", b"2"]
    driver.advance(2)
    assert driver.run_of("both").offsets["in", 0] == 2


def test_a_record_of_another_producer_is_read_wherever_it_lies(driver: TopologyTestDriver) -> None:
    driver.pipe("raw", b"a", b"count")
    commits = driver.run_of("both").commits
    commit = commits.commit

    def late(tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        log = driver._broker.records["in", 0]
        log.append(Record("in", 0, len(log), driver.now, b"a", b"count", []))
        commits.commit = commit  # type: ignore[method-assign]
        commit(tasks, alone=alone)

    commits.commit = late  # type: ignore[method-assign]
    with driver.together():
        driver.pipe("raw", b"a", b"count")
        left = step(driver)
    assert [record.offset for record in left] == [1, 2], "it moved past what it did not take"
    driver.pipe("raw", b"a", b"count")
    assert counted(driver) == [b"1", b"2", b"3", b"4"]
    assert position(driver) == 4


def test_what_could_not_be_taken_is_read_and_its_letter_names_its_offset(
    driver: TopologyTestDriver,
) -> None:
    with driver.together():
        for verb in (b"count", b"poison", b"count"):
            driver.pipe("raw", b"a", verb)
        assert len(step(driver)) == 3
    assert counted(driver) == [b"1", b"2"]
    (letter,) = driver.output("dlq")
    assert letter.key == b"counting:in:0:1"
    driver.pipe("raw", b"a", b"count")
    assert (counted(driver)[-1], position(driver)) == (b"3", 4)


def test_after_a_refused_output_each_record_is_counted_once(driver: TopologyTestDriver) -> None:
    with driver.together():
        for verb in (b"count", b"huge", b"count"):
            driver.pipe("raw", b"a", verb)
    assert counted(driver) == [b"1", b"2"]
    assert position(driver) == 3


@pytest.mark.parametrize("at", ["produced", "before_commit", "after_commit", "after_write"])
def test_a_successor_reads_from_the_committed_position_and_skips_what_was_taken(
    driver: TopologyTestDriver, at: CrashPoint
) -> None:
    driver.pipe("raw", b"a", b"count")
    driver.crash("both", at)
    driver.pipe("raw", b"a", b"count")
    driver.pipe("raw", b"a", b"count")
    assert driver.run_of("both").commits.armed is None, "it did not die"
    assert counted(driver) == [b"1", b"2", b"3"]
    driver.restart("both")
    driver.pipe("raw", b"a", b"count")
    assert counted(driver) == [b"1", b"2", b"3", b"4"]
    assert position(driver) == 4


def test_nothing_that_is_handed_over_overtakes_what_was_not_read(
    driver: TopologyTestDriver,
) -> None:
    """Such as what stages wrote that ran apart before."""
    run = driver.run_of("both")
    log = driver._broker.records["in", 0]
    with driver.together():
        log.append(Record("in", 0, 0, driver.now, b"old", b"count", []))
        run.start()
        driver.pipe("raw", b"new", b"count")
    driver.pipe("raw", b"newer", b"count")
    assert [record.key for record in driver.output("out")] == [b"old", b"new", b"newer"]
    assert position(driver) == 3


@pytest.mark.parametrize("verb", [b"doubt", b"poison", b"huge"])
def test_nothing_that_is_handed_over_overtakes_what_was_not_taken(
    driver: TopologyTestDriver, verb: bytes
) -> None:
    with driver.together():
        driver.pipe("raw", b"guilty", verb)
        for key in (b"1", b"2"):
            driver.pipe("raw", key, b"count")
    with driver.together():
        for key in (b"3", b"4"):
            driver.pipe("raw", key, b"count")
    assert [record.key for record in driver.output("out")] == [b"1", b"2", b"3", b"4"]


def returning_stage() -> FusedStage:
    """Fused stages whose topic is not theirs alone: dead letters come back on it, too."""
    passing, counting = fused_stage().parts
    return FusedStage("both", (passing, replace(counting, letters="in")))


@pytest.mark.parametrize("stage", [fused_stage, returning_stage])
@pytest.mark.parametrize("verb", [b"poison", b"huge"])
def test_nothing_of_the_next_transactions_overtakes_what_is_left_in_a_topic(
    stage: Callable[[], FusedStage], verb: bytes
) -> None:
    driver = TopologyTestDriver([stage()], fused_topology(), partitions=1)
    with driver.together():
        for key, what in ((b"1", b"count"), (b"guilty", verb), (b"2", b"count")):
            driver.pipe("raw", key, what)
        driver.run_of("both").step(punctuate=False)
        assert len(driver.output("in")) == 3
        for key in (b"3", b"4"):
            driver.pipe("raw", key, b"count")
    assert [record.key for record in driver.output("out")] == [b"1", b"2", b"3", b"4"]


def test_what_was_read_before_it_was_held_back_overtakes_nothing(
    driver: TopologyTestDriver,
) -> None:
    run = driver.run_of("both")
    old = Record("in", 0, 0, driver.now, b"old", b"count", [])
    driver._broker.records["in", 0].append(old)
    run.start()
    task = run.tasks[0]
    assert task.held_back == {"raw"}
    task.process([Record("raw", 0, 0, driver.now, b"new", b"count", []), old])
    assert [r.key for topic, _, own in task.outputs if topic == "out" for r in own] == [b"old"]


class Late(Passing):
    """Relays `raw`, and at its next punctuation forwards one record more."""

    relayed = False

    def process(self, record: Record, ctx: Context) -> None:
        super().process(record, ctx)
        self.relayed = True

    def punctuate(self, now: int, ctx: Context) -> None:
        if self.relayed:
            ctx.forward("in", b"later", b"count")
        self.relayed = False


def test_nothing_overtakes_what_the_same_transaction_left_in_the_topic() -> None:
    late, counting = fused_stage().parts
    stage = FusedStage("both", (replace(late, processor=Late), counting))
    driver = TopologyTestDriver([stage], fused_topology(), partitions=1)
    with driver.together():
        for key, verb in ((b"guilty", b"poison"), (b"1", b"count")):
            driver.pipe("raw", key, verb)
        driver.run_of("both").step(punctuate=True)
    driver.advance(1)
    assert [record.key for record in driver.output("out")] == [b"1", b"later"]
