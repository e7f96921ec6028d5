"""A processor is promised the same on every runtime: in memory, on RocksDB, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from support.conditions import eventually
from support.runtime_harness import BrokerHarness, DriverHarness, RuntimeHarness, Step, on_disk

COUNT = (b"a", b"count")
STEPS: tuple[Step, ...] = get_args(Step)


HARNESSES = ["memory", "rocksdb", pytest.param("broker", marks=pytest.mark.broker)]


@pytest.fixture(params=HARNESSES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RuntimeHarness]:
    yield from open_harness(request, tmp_path, "counting")


@pytest.fixture(params=HARNESSES)
def granting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RuntimeHarness]:
    yield from open_harness(request, tmp_path, "granting")


def open_harness(
    request: pytest.FixtureRequest, folder: Path, stage: str
) -> Iterator[RuntimeHarness]:
    opened: RuntimeHarness
    if request.param == "broker":
        opened = BrokerHarness(request.getfixturevalue("kafka"), folder, stage)
    else:
        opened = DriverHarness(on_disk(folder) if request.param == "rocksdb" else None, stage)
    yield opened
    opened.close()


def counted(*numbers: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"a", b"%d" % number) for number in numbers]


def test_state_and_output_are_each_partitions_own(harness: RuntimeHarness) -> None:
    harness.start()
    harness.send(COUNT, COUNT, partition=1)
    harness.send(COUNT)
    harness.shows(counted(1, 1, 2))
    assert harness.letters() == []


def test_a_record_that_fails_is_undone_alone_and_becomes_a_dead_letter(
    harness: RuntimeHarness,
) -> None:
    harness.start()
    harness.send(*((b"a", verb) for verb in (b"count", b"poison", b"count", b"poison", b"count")))
    harness.shows(counted(1, 2, 3))
    assert [
        (letter.id, letter.reason, letter.key, letter.value) for letter in harness.letters()
    ] == [
        ("counting:in:0:1", "bad_verb", b"a", b"poison"),
        ("counting:in:0:3", "bad_verb", b"a", b"poison"),
    ]
    assert harness.last_headers() == [("total", b"3")], "derived state was not rebuilt"


def test_what_a_failed_record_changed_in_memory_alone_is_corrected_as_well(
    harness: RuntimeHarness,
) -> None:
    harness.start()
    harness.send(*((b"a", verb) for verb in (b"count", b"doubt", b"count")))
    harness.shows(counted(1, 2))
    assert len(harness.letters()) == 1
    assert harness.last_headers() == [("total", b"2")], "derived state was not rebuilt"


def test_a_failure_that_is_no_records_fault_ends_the_stage_and_loses_nothing(
    harness: RuntimeHarness,
) -> None:
    """Till somebody says that it is the record that our code cannot take."""
    harness.start()
    harness.send(COUNT)
    harness.shows(counted(1))
    harness.send(COUNT, (b"a", b"crash"), COUNT)
    for _ in range(2):
        why = harness.fails()
        assert "counting cannot go on at in-0@2: ZeroDivisionError: told to." in why
        assert why.endswith("TIDEGATE_SET_ASIDE=in:0:2, which sends this record to dlq")
        assert harness.keys() == [b"a"]
        assert harness.letters() == []
        harness.start()
    harness.fails()
    harness.start(("in", 0, 2))
    harness.shows(counted(1, 2, 3))
    (letter,) = harness.letters()
    assert (letter.id, letter.reason, letter.value) == ("counting:in:0:2", "set_aside", b"crash")


GRANTS = [(b"%02d" % n, b"grant") for n in range(20)]


@pytest.mark.parametrize("verb", [b"huge", b"nowhere"])
def test_an_initiated_output_that_is_refused_costs_nobody_else_anything(
    granting: RuntimeHarness, verb: bytes
) -> None:
    """Neither the records of its step nor what else was to be initiated."""
    granting.start()
    granting.send(*GRANTS[:13], (b"12a", verb), *GRANTS[13:], (b"bad", b"poison"))
    expected = {(key, said) for key, _ in GRANTS for said in (b"accepted", b"granted")}
    expected |= {(b"12a", b"accepted")}
    expected |= {(b"12a", b"refused")} if verb == b"huge" else set()
    eventually(lambda: set(granting.pairs()) == expected, what="all but one are granted")
    assert len(granting.pairs()) == len(expected)
    assert [letter.id for letter in granting.letters()] == ["granting:in:0:21"]
    granting.send((b"later", b"grant"))
    expected |= {(b"later", b"accepted"), (b"later", b"granted")}
    eventually(lambda: set(granting.pairs()) == expected, what="a later one is granted")


@pytest.mark.parametrize("verb", [b"lost", b"huge"])
def test_an_output_that_is_refused_rolls_all_back_and_loses_its_input_alone(
    harness: RuntimeHarness, verb: bytes
) -> None:
    harness.start()
    harness.send(COUNT, COUNT)
    harness.shows(counted(1, 2))
    harness.send(COUNT, (b"a", verb), COUNT)
    harness.shows(counted(1, 2, 3, 4))
    (letter,) = harness.letters()
    assert (letter.id, letter.reason) == ("counting:in:0:3", "output_refused")
    assert harness.last_headers() == [("total", b"4")], "derived state was not rebuilt"


@pytest.mark.parametrize("disk_lost", [False, True])
def test_a_restarted_stage_has_its_state_again(harness: RuntimeHarness, disk_lost: bool) -> None:
    harness.start()
    harness.send(COUNT, COUNT)
    harness.send(COUNT, partition=1)
    harness.shows(counted(1, 2, 1))
    harness.stop()
    if disk_lost:
        harness.lose_disk()
    harness.start()
    harness.send(COUNT)
    harness.shows(counted(1, 2, 3, 1))
    assert harness.last_headers() == [("total", b"1")]
    harness.send(COUNT, partition=1)
    harness.shows(counted(1, 2, 3, 1, 2))


@pytest.mark.parametrize("disk_lost", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_of_a_commit_neither_loses_nor_repeats(
    harness: RuntimeHarness, step: Step, disk_lost: bool
) -> None:
    harness.start()
    harness.send(COUNT, COUNT)
    harness.shows(counted(1, 2))
    harness.crash(step, COUNT, (b"b", b"count"), disk_lost=disk_lost)
    harness.send(COUNT)
    harness.shows([*counted(1, 2, 3), (b"b", b"1"), *counted(4)])


def test_a_punctuation_fires_once_what_a_record_set_and_also_after_a_restart(
    harness: RuntimeHarness,
) -> None:
    harness.start()
    harness.send((b"a", b"tick"))
    harness.pass_time()
    eventually(lambda: harness.keys() == [b"a", b"tick:a"], what="the timer fired")
    harness.stop()
    harness.start()
    harness.send((b"c", b"tick"))
    harness.pass_time()
    eventually(lambda: harness.keys()[2:] == [b"c", b"tick:c"], what="the second timer fired")
    harness.pass_time()
    assert len(harness.keys()) == 4


@pytest.mark.parametrize("disk_lost", [False, True])
def test_stream_time_is_the_highest_of_the_records_and_outlives_a_restart(
    harness: RuntimeHarness, disk_lost: bool
) -> None:
    start = int(time.time() * 1000) - 60_000
    harness.start()
    harness.send((b"a", b"time"), timestamp=start + 5_000)
    harness.send((b"a", b"time"), timestamp=start + 4_000)
    told = (b"time", b"%d" % (start + 5_000))
    harness.shows([*counted(1), told, *counted(2), told])
    harness.stop()
    if disk_lost:
        harness.lose_disk()
    harness.start()
    harness.send((b"a", b"time"), timestamp=start + 3_000)
    harness.shows([*counted(1), told, *counted(2), told, *counted(3), told])
