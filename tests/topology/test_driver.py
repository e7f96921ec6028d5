"""The runtime's promises to a processor, shown on a stage that counts."""

from __future__ import annotations

import pytest
from counting import counting_stage, counting_topology

from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.poison import KEY_CAP, VALUE_CAP
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver([counting_stage()], counting_topology())


def values(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.output("out")]


def letters(driver: TopologyTestDriver) -> list[DeadLetter]:
    return [DEAD_LETTER.decode(record.value) for record in driver.output("dlq")]


def test_records_change_the_store_and_flow_on(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"count", partition=1)
    driver.pipe("in", b"a", b"count", partition=1)
    assert values(driver) == [(b"a", b"1"), (b"a", b"2")]
    assert driver.store("counting", "counts", 1).get(b"a") == b"2"
    assert driver.store("counting", "counts", 0).get(b"a") is None


@pytest.mark.parametrize(
    ("verb", "reason"),
    [(b"poison", "bad_verb"), (b"crash", "processor_error"), (b"lost", "output_refused"),
     (b"huge", "output_refused")],
)  # fmt: skip
def test_a_record_that_fails_is_undone_alone_and_becomes_a_dead_letter(
    driver: TopologyTestDriver, verb: bytes, reason: str
) -> None:
    for value in (b"count", verb, b"count"):
        driver.pipe("in", b"a", value)
    assert values(driver) == [(b"a", b"1"), (b"a", b"2")]
    (letter,) = letters(driver)
    assert (letter.id, letter.reason) == ("counting:in:0:1", reason)
    assert (letter.kind, letter.key, letter.value) == ("record", b"a", verb)
    assert driver.output("out")[-1].headers == (("total", b"2"),), "derived state was not rebuilt"


def test_a_dead_letter_keeps_no_more_than_a_message_can_carry(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"k" * 2_000_000, b"v" * 2_000_000)
    (letter,) = letters(driver)
    assert (len(letter.key or b""), len(letter.value or b"")) == (KEY_CAP, VALUE_CAP)
    assert "key cut from 2000000" in letter.detail
    assert "value cut from 2000000" in letter.detail
    assert len(driver.output("dlq")[0].value or b"") < 1_000_000


def test_a_dead_letter_keeps_the_trace(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"poison", headers=[("traceparent", b"00-ab-cd-01")])
    assert letters(driver)[0].traceparent == "00-ab-cd-01"


@pytest.mark.parametrize("at", ["before_commit", "after_commit", "after_write"])
def test_a_crash_at_any_step_of_a_commit_neither_loses_nor_repeats(
    driver: TopologyTestDriver, at: CrashPoint
) -> None:
    driver.pipe("in", b"a", b"count")
    driver.crash("counting", at)
    driver.pipe("in", b"a", b"count")
    driver.pipe("in", b"a", b"count")
    assert values(driver) == [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]
    assert driver.store("counting", "counts").get(b"a") == b"3"


@pytest.mark.parametrize("keep_state", [True, False])
def test_a_restarted_stage_has_its_state_again(
    driver: TopologyTestDriver, keep_state: bool
) -> None:
    driver.pipe("in", b"a", b"count")
    driver.restart("counting", keep_state=keep_state)
    driver.pipe("in", b"a", b"count")
    assert values(driver)[-1] == (b"a", b"2")


def test_state_that_the_changelog_does_not_have_is_gone_after_a_restart(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("in", b"a", b"count")
    driver._broker.records["counting.counts.changelog", 0].clear()
    driver.restart("counting")
    assert driver.store("counting", "counts").get(b"a") is None


def test_punctuations_fire_as_the_clock_moves(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"tick")
    start = driver.now
    driver.advance(0.05)
    assert len(driver.output("out")) == 1
    driver.advance(0.05)
    assert values(driver)[-1] == (b"tick:a", b"%d" % (start + 100))
    assert driver.now == start + 100


def test_a_punctuation_without_effect_commits_nothing(driver: TopologyTestDriver) -> None:
    driver.crash("counting", "before_commit")
    driver.advance(5)
    assert driver._runs["counting"].commits.armed == "before_commit"


def test_a_long_span_is_punctuated_in_bounded_steps(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"tick")
    driver.advance(30 * 86_400)
    assert values(driver)[-1][0] == b"tick:a"


def test_stream_time_follows_records_and_survives_a_restart(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"count", timestamp=5_000)
    driver.pipe("in", b"a", b"count", timestamp=4_000)
    driver.restart("counting")
    assert driver._runs["counting"].tasks[0].ctx.stream_time == 5_000
