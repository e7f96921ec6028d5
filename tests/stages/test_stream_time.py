"""The stream time that a processor sees, on each way by which a record reaches it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.returning import give_back, outcome

from streams.errors import PoisonRecord
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import FusedStage, declared_stage
from streams.topology.model import StageDeclaration, Topic, Topology

TOPOLOGY = Topology(
    partitions=1,
    window_ms=1_000,
    topics={name: Topic(name, 1) for name in ("raw", "facts", "told", "dlq")},
    stages={
        "maker": StageDeclaration("maker", ("raw",), ("facts", "dlq")),
        "teller": StageDeclaration("teller", ("facts",), ("told", "dlq")),
    },
    priorities={},
    pools=(),
    job_types={},
    routes=(),
    limits=(),
    finished_jobs_ms=0,
)


class Maker(Processor):
    def __init__(self, partition: int) -> None:
        """One instance serves one partition."""

    def process(self, record: Record, ctx: Context) -> None:
        ctx.forward("facts", record.key, record.value, timestamp=record.timestamp)


class Teller(Maker):
    """Tells of each record its value, and the stream time that it saw."""

    seen: list[tuple[bytes | None, int]]

    def process(self, record: Record, ctx: Context) -> None:
        self.seen.append((record.value, ctx.stream_time))
        if record.value == b"poison":
            raise PoisonRecord("undecodable", "")
        ctx.forward("told", record.key, record.value)


@pytest.fixture(autouse=True)
def seen() -> list[tuple[bytes | None, int]]:
    Teller.seen = []
    return Teller.seen


def test_a_record_that_is_handed_over_counts_in_the_time_that_its_processor_sees(
    seen: list[tuple[bytes | None, int]],
) -> None:
    parts = (
        declared_stage(TOPOLOGY, "maker", Maker),
        declared_stage(TOPOLOGY, "teller", Teller),
    )
    driver = TopologyTestDriver([FusedStage("both", parts)], TOPOLOGY)
    with driver.together():
        driver.pipe("raw", b"k", b"a", timestamp=7)
        driver.pipe("raw", b"k", b"b", timestamp=9)
    assert seen == [(b"a", 7), (b"b", 9)]
    seen.clear()
    with driver.together():
        driver.pipe("raw", b"k", b"c", timestamp=11)
        driver.pipe("raw", b"k", b"poison", timestamp=13)
    handed_over, read = seen[:2], seen[2:]
    assert handed_over == read == [(b"c", 11), (b"poison", 13)]


def test_the_record_of_a_letter_counts_when_it_is_handled_at_last(
    seen: list[tuple[bytes | None, int]],
) -> None:
    """The refusal took back the time, too."""
    narrow = replace(TOPOLOGY.topics["told"], max_message_bytes=2)
    driver = TopologyTestDriver([declared_stage(TOPOLOGY, "teller", Teller)], TOPOLOGY)
    driver._broker._topology = replace(TOPOLOGY, topics={**TOPOLOGY.topics, "told": narrow})
    driver.pipe("facts", b"k", b"long", timestamp=7)
    assert driver.task("teller").ctx.stream_time == 0
    driver._broker._topology = TOPOLOGY
    give_back(driver, TOPOLOGY, "teller:facts:0:0")
    assert outcome(driver, "teller:facts:0:0") == "taken"
    assert seen[-1] == (b"long", 7)
    assert driver.task("teller").ctx.stream_time == 7
