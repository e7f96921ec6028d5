"""What the test driver alone shows: whole dead letters, a clock that is moved.

What every runtime promises is in `tests/conformance/test_runtime.py`.
"""

from __future__ import annotations

import pytest
from support.counting import counting_stage, counting_topology

from streams.runtime.driver import TopologyTestDriver
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.serde.sizes import MAX_LETTER_KEY_BYTES, MAX_LETTER_VALUE_BYTES


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver([counting_stage()], counting_topology())


def values(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.output("out")]


def letters(driver: TopologyTestDriver) -> list[DeadLetter]:
    return [DEAD_LETTER.decode(record.value) for record in driver.output("dlq")]


def test_a_dead_letter_keeps_no_more_than_a_message_can_carry(driver: TopologyTestDriver) -> None:
    headers = [(f"h{n}", b"x" * 1_000) for n in range(20)]
    driver.pipe("in", b"k" * 2_000_000, b"v" * 2_000_000, headers=headers)
    (letter,) = letters(driver)
    assert (len(letter.key or b""), len(letter.value or b"")) == (
        MAX_LETTER_KEY_BYTES,
        MAX_LETTER_VALUE_BYTES,
    )
    assert "key cut from 2000000" in letter.detail
    assert "value cut from 2000000" in letter.detail
    assert "12 headers cut" in letter.detail
    assert letter.cut
    assert len(driver.output("dlq")[0].value or b"") < 1_000_000


def test_a_dead_letter_keeps_all_that_it_takes_to_send_the_record_again(
    driver: TopologyTestDriver,
) -> None:
    headers = [("ce_id", b"evt_1"), ("odd", b"\xff"), ("empty", b"")]
    driver.pipe("in", b"a", b"poison", timestamp=77, headers=headers)
    (letter,) = letters(driver)
    assert (letter.topic, letter.key, letter.value) == ("in", b"a", b"poison")
    assert (letter.timestamp, letter.headers, letter.cut) == (77, dict(headers), False)


def test_a_dead_letter_tells_of_what_a_map_cannot_hold(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"poison", headers=[("a", b"1"), ("a", b"2")])
    (letter,) = letters(driver)
    assert (letter.headers, letter.cut) == ({"a": b"1"}, True)


def test_a_dead_letter_keeps_the_trace(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"poison", headers=[("traceparent", b"00-ab-cd-01")])
    assert letters(driver)[0].traceparent == "00-ab-cd-01"


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
    assert driver.run_of("counting").commits.armed == "before_commit"


def test_a_long_span_is_punctuated_in_bounded_steps(driver: TopologyTestDriver) -> None:
    driver.pipe("in", b"a", b"tick")
    driver.advance(30 * 86_400)
    assert values(driver)[-1][0] == b"tick:a"
