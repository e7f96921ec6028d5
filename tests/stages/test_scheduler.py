"""The scheduler: once, never early, to allowed targets only."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import scheduler
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import DEAD_LETTER, SCHEDULE
from streams.serde.records import Schedule
from streams.topology.load import load

TOPOLOGY = load()


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver([scheduler.stage(TOPOLOGY)], TOPOLOGY)


def set_timer(
    driver: TopologyTestDriver,
    id_: str,
    due_at: int,
    *,
    value: bytes = b"wake",
    topic: str = "jobs.commands",
    tenant: str = "acme",
    partition: int = 0,
) -> None:
    schedule = Schedule(id_, tenant, due_at, topic, b"job_1", value)
    driver.pipe("schedule", b"acme", SCHEDULE.encode(schedule), partition=partition)


def fired(driver: TopologyTestDriver) -> list[bytes | None]:
    return [record.value for record in driver.output("jobs.commands")]


def test_it_fires_once_never_early_on_its_own_partition(driver: TopologyTestDriver) -> None:
    set_timer(driver, "s1", driver.now + 10_000, partition=3)
    driver.advance(9.999)
    assert fired(driver) == []
    driver.advance(0.05)
    (record,) = driver.output("jobs.commands")
    assert (record.partition, record.key, record.value) == (3, b"job_1", b"wake")
    driver.advance(60)
    assert len(fired(driver)) == 1


def test_it_rests_while_no_timer_fires_soon(driver: TopologyTestDriver) -> None:
    task = driver.task("scheduler")
    assert task.rests()
    set_timer(driver, "s1", driver.now + 10_000)
    assert task.rests()
    driver.advance(9.6)
    assert not task.rests()
    driver.advance(0.5)
    assert fired(driver) == [b"wake"]
    assert task.rests()


def test_it_is_prompt(driver: TopologyTestDriver) -> None:
    due = driver.now + 1_000
    set_timer(driver, "s1", due)
    driver.advance(2)
    (record,) = driver.output("jobs.commands")
    assert 0 <= record.timestamp - due <= 50


def test_a_due_time_long_past_fires_at_once(driver: TopologyTestDriver) -> None:
    set_timer(driver, "s1", -5)
    driver.advance(0.05)
    assert fired(driver) == [b"wake"]


def test_timers_fire_in_the_order_of_their_due_times(driver: TopologyTestDriver) -> None:
    for offset in (300, 100, 200, 256, 255):
        set_timer(driver, f"s{offset}", driver.now + offset, value=b"%d" % offset)
    driver.advance(1)
    assert fired(driver) == [b"100", b"200", b"255", b"256", b"300"]


@pytest.mark.parametrize("offsets", [(1_000, 2_000), (2_000, 1_000), (1_000, 1_000)])
def test_a_second_schedule_of_an_id_replaces_the_first(
    driver: TopologyTestDriver, offsets: tuple[int, int]
) -> None:
    start = driver.now
    set_timer(driver, "s1", start + offsets[0], value=b"first")
    set_timer(driver, "s1", start + offsets[1], value=b"second")
    driver.advance(5)
    assert fired(driver) == [b"second"]
    assert driver.output("jobs.commands")[0].timestamp >= start + offsets[1]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_schedule_without_a_target_forgets_the_one_of_its_id(
    driver: TopologyTestDriver, restarts: bool
) -> None:
    for id_ in ("s1", "s2"):
        set_timer(driver, id_, driver.now + 1_000, value=id_.encode())
    for id_ in ("s1", "none"):
        set_timer(driver, id_, 0, topic="")
    if restarts:
        driver.restart("scheduler")
    driver.advance(5)
    assert fired(driver) == [b"s2"]
    assert list(driver.store("scheduler", "timers").range(b"", b"\xff")) == []


def test_equal_ids_of_two_tenants_are_two_timers(driver: TopologyTestDriver) -> None:
    for tenant in ("acme", "globex"):
        set_timer(driver, "s1", driver.now + 10, tenant=tenant, value=tenant.encode())
    driver.advance(1)
    assert sorted(map(bytes, filter(None, fired(driver)))) == [b"acme", b"globex"]


@pytest.mark.parametrize("topic", ["events", "dlq", "nowhere"])
def test_a_target_that_is_not_allowed_is_a_dead_letter(
    driver: TopologyTestDriver, topic: str
) -> None:
    set_timer(driver, "s1", driver.now, topic=topic)
    driver.pipe("schedule", b"acme", b"no schedule")
    driver.advance(1)
    letters = [DEAD_LETTER.decode(record.value) for record in driver.output("dlq")]
    assert [letter.reason for letter in letters] == ["target_not_allowed", "undecodable"]
    assert driver.output(topic) == [] or topic == "dlq"


@pytest.mark.parametrize("at", ["before_commit", "after_commit", "after_write"])
@pytest.mark.parametrize("keep_state", [True, False])
def test_a_crash_while_firing_neither_loses_nor_repeats(
    driver: TopologyTestDriver, at: CrashPoint, keep_state: bool
) -> None:
    set_timer(driver, "s1", driver.now + 1_000)
    driver.crash("scheduler", at)
    driver.advance(2)
    driver.restart("scheduler", keep_state=keep_state)
    driver.advance(2)
    assert fired(driver) == [b"wake"]


def test_a_timer_whose_record_nobody_takes_is_a_dead_letter_and_holds_up_no_other() -> None:
    """Each would be tried, and undone, together with it for ever."""
    narrow = dataclasses.replace(TOPOLOGY.topics["jobs.commands"], max_message_bytes=1_000)
    topology = dataclasses.replace(TOPOLOGY, topics={**TOPOLOGY.topics, narrow.name: narrow})
    driver = TopologyTestDriver([scheduler.stage(topology)], topology)
    due = driver.now + 10_000
    for n in range(20):
        set_timer(driver, f"s{n:02}", due, value=b"x" * 2_000 if n == 7 else b"%d" % n)
    driver.advance(11)
    assert fired(driver) == [b"%d" % n for n in range(20) if n != 7]
    (letter,) = [DEAD_LETTER.decode(record.value) for record in driver.output("dlq")]
    assert (letter.id, letter.reason) == (f"scheduler:acme:s07:{due}", "output_refused")
    assert SCHEDULE.decode(letter.value).value == b"x" * 2_000
    assert list(driver.store("scheduler", "timers").range(b"", b"\xff")) == []


def test_an_id_that_would_be_anothers_is_a_dead_letter(driver: TopologyTestDriver) -> None:
    set_timer(driver, "b\0c", driver.now + 10_000, tenant="a")
    set_timer(driver, "c", driver.now + 10_000, tenant="a\0b")
    driver.advance(11)
    assert fired(driver) == []
    reasons = [DEAD_LETTER.decode(record.value).reason for record in driver.output("dlq")]
    assert reasons == ["bad_id", "bad_id"]


def test_a_backlog_fires_in_bounded_batches_until_none_is_left(driver: TopologyTestDriver) -> None:
    for i in range(2_500):
        set_timer(driver, f"s{i}", driver.now + 20)
    driver.advance(0.025)
    assert len(fired(driver)) == 1_000
    driver.advance(0.05)
    assert len(fired(driver)) == 2_500
    assert list(driver.store("scheduler", "timers").range(b"", b"\xff")) == []


TIMERS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3_000)), max_size=15)


@settings(max_examples=30)
@given(timers=TIMERS, restart=st.booleans())
def test_what_fires_is_the_last_schedule_of_each_id(
    timers: list[tuple[str, int]], restart: bool
) -> None:
    driver = TopologyTestDriver([scheduler.stage(TOPOLOGY)], TOPOLOGY, partitions=1)
    start = driver.now
    for i, (id_, offset) in enumerate(timers):
        set_timer(driver, id_, start + 1_000 + offset, value=b"%d" % i)
    last = {id_: (i, start + 1_000 + offset) for i, (id_, offset) in enumerate(timers)}
    if restart:
        driver.restart("scheduler")
    driver.advance(5)
    assert sorted(fired(driver), key=str) == sorted((b"%d" % i for i, _ in last.values()), key=str)
    due = {b"%d" % i: at for i, at in last.values()}
    for record in driver.output("jobs.commands"):
        assert record.timestamp >= due[record.value or b""]
