"""Starts of shared rates: who gets a token, and how long it may be used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.limits.buckets import Bucket
from streams.limits.budgets import Budgets
from streams.limits.rates import Pace, Rates, pace_of
from streams.limits.token_lines import TokenLines
from streams.topology.limits import Limit, Rate

CALLS = Bucket("calls", "", "")
TEN = Limit("calls", "global", rate=Rate(10, 1))
LIMITS = {"calls": TEN}
RATES = Rate(10, 1), Rate(100, 60), Rate(30, 60), Rate(7, 2)


def done(*_: object) -> None:
    """Nothing is taken back."""


def test_what_was_granted_is_lost_a_second_after_it_was_asked_for() -> None:
    budgets = Budgets(LIMITS)
    assert budgets.lacks(CALLS, 5, 10.0, "at_once") == 5
    number = budgets.ask(CALLS, 5, 10.0, "at_once", 1, done)
    assert budgets.lacks(CALLS, 5, 10.5, "at_once") == 0, "its answer is under way"
    assert budgets.granted(CALLS, number, 3, 0.4, 10.6, done)
    assert budgets.tokens(CALLS, 11.0) == 3
    budgets.spend(CALLS, 10.7, "a", done)
    assert budgets.tokens(CALLS, 10.7) == 2
    assert budgets.lacks(CALLS, 5, 10.9, "at_once") == 0, "the owner has none until then"
    assert budgets.lacks(CALLS, 5, 11.0, "at_once") == 3
    assert budgets.tokens(CALLS, 11.01) == 0
    budgets.forget(11.1)
    assert not budgets.are_open


def test_a_grant_counts_once_and_only_for_what_was_asked() -> None:
    budgets = Budgets(LIMITS)
    number = budgets.ask(CALLS, 1, 0.0, "at_once", 1, done)
    assert not budgets.granted(CALLS, number + 1, 1, 0, 0.1, done)
    assert budgets.granted(CALLS, number, 1, 0, 0.1, done)
    assert not budgets.granted(CALLS, number, 1, 0, 0.1, done)
    assert budgets.tokens(CALLS, 0.1) == 1
    late = budgets.ask(CALLS, 1, 1.0, "at_once", 1, done)
    assert late > number
    assert not budgets.granted(CALLS, late, 1, 0, 2.1, done)


def test_what_is_taken_back_is_as_before() -> None:
    budgets, calls = Budgets(LIMITS), list[tuple[object, ...]]()

    def note(*call: object) -> None:
        calls.append(call)

    number = budgets.ask(CALLS, 2, 0.0, "at_once", 1, done)
    budgets.granted(CALLS, number, 2, 0, 0.1, note)
    budgets.spend(CALLS, 0.1, "a", note)
    for undo, *of in reversed(calls):
        undo(*of)  # type: ignore[operator]
    assert budgets.tokens(CALLS, 0.1) == 0
    assert budgets.granted(CALLS, number, 2, 0, 0.2, done)


def test_a_start_that_was_not_used_after_all_is_there_once_more_until_its_time_is_over() -> None:
    budgets = Budgets(LIMITS)
    number = budgets.ask(CALLS, 2, 10.0, "at_once", 1, done)
    budgets.granted(CALLS, number, 2, 0, 10.1, done)
    for job_id in "ab":
        budgets.spend(CALLS, 10.2, job_id, done)
    assert not budgets.give_back(CALLS, 10.3, "c", done)
    assert budgets.give_back(CALLS, 10.3, "a", done)
    assert not budgets.give_back(CALLS, 10.3, "a", done)
    assert budgets.tokens(CALLS, 11.0) == 1
    assert not budgets.give_back(CALLS, 11.1, "b", done)
    assert budgets.tokens(CALLS, 11.1) == 0


def test_a_partition_without_a_worker_asks_in_its_turn_once_in_eight_intervals() -> None:
    budgets = Budgets(LIMITS)
    assert budgets.how(CALLS, 10.0, at_once=False) == "in_turn"
    number = budgets.ask(CALLS, 1, 10.0, "in_turn", 1, done)
    budgets.granted(CALLS, number, 1, 0, 10.0, done)
    assert budgets.how(CALLS, 10.7, at_once=False) == "left_over"
    assert budgets.how(CALLS, 10.8, at_once=False) == "in_turn"
    budgets.spend(CALLS, 10.7, "a", done)
    assert budgets.how(CALLS, 10.7, at_once=False) == "in_turn", "it had a worker after all"


def test_a_partition_that_has_a_worker_now_does_not_wait_for_what_others_leave() -> None:
    budgets = Budgets(LIMITS)
    number = budgets.ask(CALLS, 1, 10.0, "left_over", 1, done)
    assert not budgets.granted(CALLS, number, 0, 30.0, 10.1, done)
    assert budgets.lacks(CALLS, 1, 11.0, "left_over") == 0
    assert budgets.lacks(CALLS, 1, 11.0, "at_once") == 1
    number = budgets.ask(CALLS, 1, 11.0, "at_once", 1, done)
    assert not budgets.granted(CALLS, number, 0, 30.0, 11.1, done)
    assert budgets.lacks(CALLS, 1, 12.0, "at_once") == 0


def test_a_start_holds_for_a_second_or_for_the_next_whole_number_of_starts() -> None:
    rates = (Rate(10, 1), 1), (Rate(100, 60), 1.2), (Rate(6, 60), 10), (Rate(1, 3600), 3600)
    for rate, seconds in rates:
        assert Limit("a", "global", rate=rate).start_seconds == pytest.approx(seconds)


def test_the_least_burst_of_a_shared_rate_covers_a_second() -> None:
    assert TEN.most_at_once == 11
    assert pace_of(TEN) == Pace(0.1, 1)
    assert Limit("a", "global", rate=Rate(100, 60)).most_at_once == 3
    assert pace_of(Limit("a", "global", rate=Rate(10, 1), burst=15)) == Pace(0.1, 5)
    assert Limit("a", "global", rate=Rate(10, 1), shared=False).most_at_once == 1


STARTS = st.lists(
    st.tuples(st.floats(0, 0.4), st.integers(0, 2), st.integers(1, 15), st.integers(0, 5)),
    max_size=60,
)


@settings(deadline=None)
@given(STARTS, st.sampled_from(RATES))
def test_no_window_has_more_starts_than_its_budget(
    script: list[tuple[float, int, int, int]], rate: Rate
) -> None:
    """Three holders ask an owner, which answers at once, and use what they got at any time."""
    limits = {"calls": replace(TEN, rate=rate)}
    rates, lines, holders = Rates(limits), TokenLines(), [Budgets(limits) for _ in range(3)]
    now, starts = 1.0, list[float]()
    for later, holder, wanted, used in script:
        now += later * 10 * rate.interval
        budgets = holders[holder]
        asked = budgets.lacks(CALLS, wanted, now, "at_once")
        if asked:
            number = budgets.ask(CALLS, asked, now, "at_once", 0, done)
            tokens = lines.share(CALLS, holder, asked, int(rates.tokens(CALLS, now)), now)
            for _ in range(tokens):
                rates.spend(CALLS, now, "", done)
            budgets.granted(CALLS, number, tokens, 0, now, done)
        for each in holders:
            for _ in range(min(used, each.tokens(CALLS, now))):
                each.spend(CALLS, now, "", done)
                starts.append(now)
    for first, at in enumerate(starts):
        for last in range(first, len(starts)):
            window = (starts[last] - at) / rate.interval
            assert last - first + 1 <= limits["calls"].most_at_once + window + 1e-6


def test_partitions_that_wait_for_a_token_are_served_in_turn() -> None:
    lines, pace = TokenLines(), Pace(1.0, 1)
    assert lines.share(CALLS, 0, 1, 1, 0.0) == 1
    lines.served(CALLS, 0)
    assert lines.wait(CALLS, 1, pace, 1.0, 0.0) == 1.0
    assert lines.wait(CALLS, 2, pace, 1.0, 0.0) == 2.0
    assert lines.share(CALLS, 0, 1, 1, 1.0) == 0, "two wait before it"
    assert lines.share(CALLS, 2, 1, 1, 1.0) == 0
    assert lines.share(CALLS, 1, 1, 1, 1.0) == 1
    lines.served(CALLS, 1)
    assert lines.share(CALLS, 2, 1, 1, 2.0) == 1


def test_a_partition_that_does_not_come_back_gives_its_turn_up() -> None:
    lines = TokenLines()
    lines.wait(CALLS, 1, Pace(1.0, 1), 1.0, 0.0)
    assert lines.share(CALLS, 0, 1, 1, 2.9) == 0
    assert lines.share(CALLS, 0, 1, 1, 3.1) == 1


def test_a_partition_without_a_turn_gets_what_is_left_over() -> None:
    lines, pace = TokenLines(), Pace(1.0, 1)
    lines.wait(CALLS, 1, pace, 1.0, 0.0)
    assert lines.left_over_in(CALLS, 2, pace, 1.0, 0.0) == 2.0
    assert lines.share(CALLS, 2, 1, 1, 1.0) == 0
    assert lines.share(CALLS, 1, 1, 1, 1.0) == 1
