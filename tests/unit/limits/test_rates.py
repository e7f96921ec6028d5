"""Rates: what may start in any window of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.limits.buckets import Bucket
from streams.limits.rates import Rates
from streams.topology.limits import Limit, Rate

BUCKET = Bucket("a", "", "x")


def ignore(*_: Any) -> None:
    return None


def rates(count: int, seconds: float, burst: int | None = None) -> Rates:
    limit = Limit("a", "tenant", "*", rate=Rate(count, seconds), burst=burst)
    return Rates({limit.name: limit})


@given(
    st.integers(1, 50),
    st.sampled_from((1.0, 60.0, 3600.0)),
    st.integers(1, 10),
    st.lists(st.floats(0, 5), min_size=1, max_size=200),
)
def test_no_window_has_more_than_the_burst_and_the_rate(
    count: int, seconds: float, burst: int, pauses: list[float]
) -> None:
    found, now, starts = rates(count, seconds, burst), 1_000.0, list[float]()
    interval = seconds / count
    for pause in pauses:
        now += pause * interval
        while found.tokens(BUCKET, now) >= 1:
            found.spend(BUCKET, now, "j", ignore)
            starts.append(now)
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            window = starts[last] - starts[first]
            assert last - first + 1 <= burst + window / interval + 1e-6


def test_it_lets_one_start_at_each_token() -> None:
    found, now = rates(10, 10, burst=2), 500.0
    assert found.tokens(BUCKET, now) == 2
    found.spend(BUCKET, now, "j", ignore)
    found.spend(BUCKET, now, "j", ignore)
    assert found.tokens(BUCKET, now) == 0
    assert found.next_token_at(BUCKET) == now + 1
    assert found.tokens(BUCKET, now + 0.99) == 0
    assert found.tokens(BUCKET, now + 1) == 1
    assert found.tokens(BUCKET, now + 60) == 2


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 3)), min_size=1, max_size=80),
)
def test_no_window_has_more_although_some_did_not_start_after_all(
    burst: int, story: list[tuple[float, int]]
) -> None:
    found, now, starts = rates(60, 60, burst), 1_000.0, dict[str, float]()
    for number, (pause, which) in enumerate(story):
        now += pause
        if which == 0 and starts:
            job_id = list(starts)[-1 - number % len(starts)]
            if found.give_back(BUCKET, now, job_id, ignore) is not None:
                del starts[job_id]
        elif found.tokens(BUCKET, now) >= 1:
            found.spend(BUCKET, now, f"j{number}", ignore)
            starts[f"j{number}"] = now
    times = list(starts.values())
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + times[last] - times[first] + 1e-6


def test_a_token_that_is_given_back_is_there_again() -> None:
    found = rates(1, 86_400, burst=2)
    found.spend(BUCKET, 5.0, "a", ignore)
    found.spend(BUCKET, 5.0, "b", ignore)
    assert found.tokens(BUCKET, 6.0) == 0
    for job_id in "ab":
        assert found.give_back(BUCKET, 6.0, job_id, ignore) is not None
    assert found.tokens(BUCKET, 6.0) == 2
    assert found.give_back(BUCKET, 6.0, "a", ignore) is None


def test_a_token_may_be_spent_while_the_clock_shows_zero() -> None:
    found = rates(1, 60)
    found.spend(BUCKET, 0.0, "j", ignore)
    assert found.tokens(BUCKET, 0.0) == 0
    assert found.give_back(BUCKET, 1.0, "j", ignore) is not None


def test_what_is_undone_was_not_spent() -> None:
    found, undo = rates(1, 60), list[tuple[Callable[..., object], tuple[Any, ...]]]()
    found.spend(BUCKET, 5.0, "j", lambda call, *args: undo.append((call, args)))
    assert found.tokens(BUCKET, 5.0) == 0
    for call, args in reversed(undo):
        call(*args)
    assert found.tokens(BUCKET, 5.0) == 1


def test_it_is_forgotten_once_its_burst_is_whole_and_not_before() -> None:
    found = rates(1, 60)
    found.spend(BUCKET, 5.0, "j", ignore)
    assert not found.forget(BUCKET, 64.9, ignore)
    assert found.forget(BUCKET, 65.0, ignore)
    assert found.next_token_at(BUCKET) is None


def test_an_arrival_far_ahead_is_taken_for_a_burst_that_was_spent_just_now() -> None:
    """The clock of the owner before ran ahead, or went back since."""
    found = rates(60, 60, burst=3)
    found.restored(BUCKET, arrival=100_000.0, now=50.0)
    assert found.tokens(BUCKET, 50.0) == 0
    assert found.tokens(BUCKET, 51.0) == 1
    assert found.tokens(BUCKET, 53.0) == 3
