"""How many attempts begin together, and how soon the next ones."""

from __future__ import annotations

from streams.delivery.slots import Slots


def test_endpoints_that_have_not_answered_yet_begin_at_a_bounded_pace() -> None:
    slots, begun = Slots(), list[int]()
    for now in range(0, 1_000, 10):
        room = slots.room("unproven", "acme", now)
        begun.append(room)
        for _ in range(room):
            slots.take("unproven", "acme")
    assert max(begun) == begun[0] <= 10
    assert 80 <= sum(begun) <= 120  # in a second
    assert slots.room("proven", "acme", 1_000) > 1_000


def test_a_long_pause_saves_up_no_burst() -> None:
    slots = Slots()
    first = slots.room("unproven", "acme", 0)
    assert slots.room("unproven", "acme", 3_600_000) == first
