"""A process that dies between any two steps of a commit, with several stores and tasks (G6).

Every record is in each store of its partition and on the output once, and the stores are equal to
the fold of their changelogs, whichever of them were written when the process died.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.granting import granting_stage, granting_topology
from support.runtime_harness import on_disk

from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import Stage, StoreSpec
from streams.topology.model import StageDeclaration, StoreDeclaration, Topic, Topology

PARTITIONS = 3
STORES = ("first", "second", "third")
POINTS: tuple[CrashPoint, ...] = get_args(CrashPoint)
PASSES: dict[CrashPoint, int] = {"produced": PARTITIONS, "between_writes": PARTITIONS * len(STORES)}
CRASHES = [(at, times) for at in POINTS for times in range(1, PASSES.get(at, 1) + 1)]


class Filing(Processor):
    """Writes each record into every store, under how many it has filed before."""

    def __init__(self, partition: int) -> None:
        self.filed = -1

    def restored(self, ctx: Context) -> None:
        sizes = {len(list(ctx.store(name).range(b"", b"\xff"))) for name in STORES}
        assert len(sizes) == 1, "the stores of a partition are not of one moment"
        self.filed = sizes.pop()

    def process(self, record: Record, ctx: Context) -> None:
        key = b"%03d" % self.filed
        for name in STORES:
            ctx.store(name).put(key, record.value or b"")
        ctx.forward("out", key, record.value)
        self.filed += 1


def filing_stage() -> Stage:
    stores = tuple(StoreSpec(name, f"filing.{name}.changelog") for name in STORES)
    return Stage("filing", ("in",), stores, Filing)


def filing_topology() -> Topology:
    stores = tuple(StoreDeclaration(name, f"filing.{name}.changelog") for name in STORES)
    names = ("in", "out", "dlq", *(store.changelog for store in stores))
    return Topology(
        partitions=PARTITIONS,
        window_ms=1_000,
        topics={name: Topic(name, PARTITIONS) for name in names},
        stages={"filing": StageDeclaration("filing", ("in",), ("out", "dlq"), stores)},
        priorities={},
        pools=(),
        job_types={},
        routes=(),
        limits=(),
        finished_jobs_ms=0,
    )


@pytest.fixture(params=["memory", "rocksdb"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TopologyTestDriver]:
    opened = on_disk(tmp_path) if request.param == "rocksdb" else None
    driver = TopologyTestDriver([filing_stage()], filing_topology(), open_tables=opened)
    yield driver
    driver.close()


def feed(driver: TopologyTestDriver, name: str, records: int = 2) -> None:
    """Some records to each partition, in one transaction."""
    with driver.together():
        for partition in range(PARTITIONS):
            for number in range(records):
                driver.pipe("in", b"k", f"{name}{number}".encode(), partition=partition)


def assert_all_once(driver: TopologyTestDriver) -> None:
    for partition in range(PARTITIONS):
        values = [r.value for r in driver.output("in") if r.partition == partition]
        expected = [(b"%03d" % n, value) for n, value in enumerate(values)]
        out = [(r.key, r.value) for r in driver.output("out") if r.partition == partition]
        assert out == expected
        for name in STORES:
            assert list(driver.store("filing", name, partition).range(b"", b"\xff")) == expected
            log = driver.output(f"filing.{name}.changelog")
            assert {r.key: r.value for r in log if r.partition == partition} == dict(expected)


@pytest.mark.long
@pytest.mark.parametrize(("at", "times"), CRASHES)
def test_a_crash_between_any_two_steps_neither_loses_nor_repeats(
    driver: TopologyTestDriver, at: CrashPoint, times: int
) -> None:
    feed(driver, "before")
    driver.crash("filing", at, times)
    feed(driver, "during")
    assert driver.run_of("filing").commits.armed is None, "it did not die"
    assert_all_once(driver)
    feed(driver, "after")
    assert_all_once(driver)
    driver.restart("filing")
    feed(driver, "at last")
    assert_all_once(driver)


@pytest.mark.parametrize(("at", "times"), CRASHES)
def test_a_crash_finds_just_what_the_steps_before_it_have_done(at: CrashPoint, times: int) -> None:
    driver = TopologyTestDriver([filing_stage()], filing_topology())
    feed(driver, "before")
    run, found = driver.run_of("filing"), list[tuple[int, int]]()
    restart = run.start

    def start() -> None:
        sizes = [len(list(tables.range(0, b"", b"\xff"))) for tables in run._tables]
        found.append((len(driver.output("out")), sizes.count(4)))
        restart()

    run.start = start  # type: ignore[method-assign]
    driver.crash("filing", at, times)
    feed(driver, "during")
    committed = POINTS.index(at) > POINTS.index("before_commit")
    written = {"between_writes": times, "after_write": PARTITIONS * len(STORES)}.get(at, 0)
    assert found == [(12 if committed else 6, written)]


@pytest.mark.parametrize("at", POINTS)
def test_a_crash_neither_repeats_nor_forgets_what_belongs_to_no_record(at: CrashPoint) -> None:
    """Also in the midst of looking for an output that is refused."""
    for commit in range(1, 30):
        driver = TopologyTestDriver([granting_stage()], granting_topology())
        driver.crash("granting", at, commit)
        with driver.together():
            for n in range(20):
                driver.pipe("in", b"%02d" % n, b"huge" if n in (3, 17) else b"grant")
        driver.advance(1)
        said = [(r.key, r.value) for r in driver.output("out")]
        keys = [b"%02d" % n for n in range(20)]
        refused = {b"03", b"17"}
        expected = [(key, b"accepted") for key in keys]
        expected += [(key, b"refused" if key in refused else b"granted") for key in keys]
        assert sorted(said) == sorted(expected)
        if driver.run_of("granting").commits.armed is not None:
            assert commit > 5, "nothing was looked for"
            return
    raise AssertionError("it goes on for ever")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(CRASHES), max_size=8))
def test_crash_after_crash_in_any_order(crashes: list[tuple[CrashPoint, int]]) -> None:
    driver = TopologyTestDriver([filing_stage()], filing_topology())
    for number, (at, times) in enumerate(crashes):
        driver.crash("filing", at, times)
        feed(driver, f"{number}-", number % 3 + 1)
    assert_all_once(driver)
