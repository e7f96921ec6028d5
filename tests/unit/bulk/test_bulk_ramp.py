"""How large the steps of a bulk act are, and which failures stop it."""

from __future__ import annotations

import pytest

from streams.bulk.ramp import Tally, room, step, too_many
from streams.serde.bulk_records import RUNNING, BulkProgress

RAMP = (1, 10, 100)


@pytest.mark.parametrize(
    ("dealt_with", "takes", "number"),
    [(0, 1, 1), (1, 10, 2), (4, 7, 2), (11, 100, 3), (110, 1, 3), (111, None, 4), (5000, None, 4)],
)
def test_a_step_takes_what_the_ramp_says_and_the_last_one_the_rest(
    dealt_with: int, takes: int | None, number: int
) -> None:
    assert room(RAMP, dealt_with) == takes
    assert step(RAMP, dealt_with) == number


def test_without_a_ramp_there_is_one_step() -> None:
    assert room((), 0) is None
    assert step((), 0) == 1


@pytest.mark.parametrize(
    ("limit", "failed", "stops"),
    [(None, 20, False), (3, 2, False), (3, 3, True), (0.1, 2, False), (0.1, 3, True)],
)
def test_a_number_or_a_share_of_failures_stops(
    limit: float | None, failed: int, stops: bool
) -> None:
    found = Tally(done=20 - failed, failed=failed)
    assert (too_many(found, BulkProgress(RUNNING), limit) is not None) is stops


def test_failures_from_before_a_resumption_do_not_count() -> None:
    before = BulkProgress(RUNNING, forgiven_items=20, forgiven_failures=5)
    assert too_many(Tally(done=20, failed=5), before, 0.1) is None
    why = too_many(Tally(done=20, failed=6), before, 0.1)
    assert why == "1 of 6 items failed, more than 10%"
