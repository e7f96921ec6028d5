"""Sketches: how far off they may be, and that the order of values does not matter."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.analytics.figures import Figures
from streams.analytics.sketches import Distinct, Histogram

MILLISECONDS = st.integers(0, 30 * 86_400_000)


def histogram(values: list[int]) -> Histogram:
    made = Histogram()
    for value in values:
        made.add(value)
    return made


def distinct(values: list[str]) -> Distinct:
    made = Distinct()
    for value in values:
        made.add("acme", value)
    return made


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_a_quantile_is_within_2_percent(share: float) -> None:
    pick = random.Random(3)
    values = sorted(round(pick.lognormvariate(7, 2)) + 1 for _ in range(5_000))
    true = values[-(-round(share * 100) * len(values) // 100) - 1]
    assert histogram(values).quantile(share) == pytest.approx(true, rel=0.0201)


def test_nothing_has_no_quantile_and_the_shortest_is_a_millisecond() -> None:
    assert Histogram().quantile(0.5) is None
    assert histogram([0, -5, 1]).quantile(0.99) == 1


@given(st.lists(MILLISECONDS, max_size=30), st.lists(MILLISECONDS, max_size=30))
def test_what_is_removed_leaves_no_trace(kept: list[int], removed: list[int]) -> None:
    made = histogram(kept + removed)
    for value in removed:
        made.add(value, -1)
    assert made.buckets == histogram(kept).buckets


@pytest.mark.parametrize("number", [1, 40, 1_000, 4_000, 12_000, 100_000])
def test_distinct_texts_are_counted_within_5_percent(number: int) -> None:
    texts = [f"s{each}" for each in range(number)]
    made = distinct(texts + texts[:50])
    assert made.estimate == pytest.approx(number, rel=0.05)


@pytest.mark.parametrize("number", [300, 4_000, 10_500, 11_500])
def test_distinct_texts_are_over_and_underestimated_alike(number: int) -> None:
    """Where linear counting ends, the estimate of 2007 is 2 % too high on average."""
    sums = sum(distinct([f"{run}-{each}" for each in range(number)]).estimate for run in range(12))
    assert sums / 12 == pytest.approx(number, rel=0.01)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_few_distinct_texts_are_counted_exactly(number: int) -> None:
    assert distinct([f"s{each}" for each in range(number)]).estimate == number


@given(st.lists(st.text(max_size=3), max_size=150), st.randoms())
def test_the_order_and_the_parts_do_not_matter(texts: list[str], pick: random.Random) -> None:
    shuffled = texts[:]
    pick.shuffle(shuffled)
    whole, first, second = distinct(shuffled), distinct(texts[:20]), distinct(texts[20:])
    first.merge(second)
    assert whole.encode() == first.encode() == distinct(texts + texts).encode()


@pytest.mark.parametrize("number", [3, 64, 800, 20_000])
def test_distinct_texts_take_little_memory(number: int) -> None:
    """A partition holds thousands of rows in memory, and busy ones have many subjects."""
    texts = [f"s{each}" for each in range(number)]
    distinct(texts)
    tracemalloc.start()
    made = [distinct(texts) for _ in range(20)]
    taken = tracemalloc.get_traced_memory()[0] / len(made)
    tracemalloc.stop()
    assert taken < 6_000


@pytest.mark.parametrize("number", [0, 3, 65, 1_000, 5_000])
def test_figures_survive_their_encoding(number: int) -> None:
    made = Figures(3, 4, {"succeeded": 2}, histogram([5, 900, 900]))
    made.subjects = distinct([f"s{each}" for each in range(number)])
    again = Figures.decode(made.encode())
    assert again.encode() == made.encode()
    assert (again.events, again.redeliveries, again.outcomes) == (3, 4, {"succeeded": 2})
    assert again.subjects.estimate == made.subjects.estimate
    assert len(made.encode()) < 4_200
