"""Timers that a processor sets by its context, and the scheduler fires."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams import scheduler
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import FusedStage, Stage
from streams.topology.load import load
from streams.topology.model import Topic, Topology


class Alarm(Processor):
    """Sets a timer for each record: its key is the timer's id, its value the seconds to wait."""

    def __init__(self, partition: int) -> None:
        """It keeps nothing."""

    def process(self, record: Record, ctx: Context) -> None:
        id_, seconds = (record.key or b"").decode(), int(record.value or b"0")
        ctx.timer("acme", id_, ctx.now + seconds * 1000, "rings", record.value or b"")


def topology() -> Topology:
    shipped = load()
    topics = {name: Topic(name, shipped.partitions) for name in ("asks", "rings")}
    firing = replace(shipped.stages["scheduler"], writes=("rings", "dlq"))
    stages = {**shipped.stages, "scheduler": firing}
    return replace(shipped, topics={**shipped.topics, **topics}, stages=stages)


@pytest.fixture(params=["fused", "apart"])
def driver(request: pytest.FixtureRequest) -> TopologyTestDriver:
    parts = (
        Stage("alarm", ("asks",), (), Alarm, writes=("schedule", "dlq")),
        scheduler.stage(topology()),
    )
    stages = [FusedStage("pipeline", parts)] if request.param == "fused" else list(parts)
    return TopologyTestDriver(stages, topology(), partitions=2)


def test_a_timer_fires_once_in_its_partition_and_not_early(driver: TopologyTestDriver) -> None:
    driver.pipe("asks", b"tea", b"5", partition=1)
    driver.advance(4.9)
    assert not driver.output("rings")
    driver.advance(60)
    (rung,) = driver.output("rings")
    assert (rung.partition, rung.key, rung.value) == (1, b"acme", b"5")


def test_a_timer_replaces_one_of_its_id_and_no_other(driver: TopologyTestDriver) -> None:
    driver.pipe("asks", b"tea", b"5")
    driver.pipe("asks", b"rice", b"6")
    driver.restart("scheduler")
    driver.pipe("asks", b"tea", b"20")
    driver.advance(10)
    assert [record.value for record in driver.output("rings")] == [b"6"]
    driver.advance(11)
    assert [record.value for record in driver.output("rings")] == [b"6", b"20"]
