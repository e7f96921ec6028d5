"""What the chaos tier of the cluster takes for a violation: no check that cannot fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.honest_run import HonestRun
from support.incident_under_way import violations

from streams.demo.verdict.judge import judge


@pytest.fixture
def run() -> HonestRun:
    return HonestRun()


def test_an_honest_run_has_none(run: HonestRun) -> None:
    assert violations(judge(run.evidence()), 100) == []


def test_a_guarantee_of_which_nothing_was_checked_is_one(run: HonestRun) -> None:
    """As where no directory of a store is found."""
    verdict = judge(replace(run.evidence(), stores=()))
    assert violations(verdict, 100) == ["G6: nothing was checked"]


@pytest.mark.parametrize(("reviews", "excused"), [(5, True), (20, False)])
def test_an_outage_excuses_a_few_reviews_and_not_a_pipeline_that_asks_for_them(
    run: HonestRun, reviews: int, excused: bool
) -> None:
    text = "job_{} of acme needs review, though no worker was killed"
    verdict = replace(
        judge(run.evidence()), shortcomings=tuple(text.format(n) for n in range(reviews))
    )
    assert (violations(verdict, 100) == []) is excused
