"""How soon attempts to endpoints begin that have not answered yet."""

from __future__ import annotations

from streams.delivery.pace import Pace


def test_a_bounded_number_begins_in_a_second_and_few_together() -> None:
    pace, begun = Pace(), list[int]()
    for now in range(0, 1_000, 10):
        begun.append(pace.room(now))
        pace.begun(begun[-1])
    assert max(begun) <= 10
    assert 80 <= sum(begun) <= 120


def test_a_long_pause_saves_up_no_burst() -> None:
    pace = Pace()
    first = pace.room(0)
    assert pace.room(3_600_000) == first
