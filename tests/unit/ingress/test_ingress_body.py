"""The room for bodies in flight, and who finds a place in it."""

from __future__ import annotations

import pytest

from ingress.receive.body import SMALL_BYTES, MemoryBudget
from ingress.receive.problems import BUSY, Refused

MIB = 1024 * 1024


@pytest.mark.parametrize("declared", [None, SMALL_BYTES + 1])
def test_large_bodies_leave_an_eighth_to_small_ones(declared: int | None) -> None:
    """Also their first bytes do, and a body without a declared length may be a large one."""
    budget = MemoryBudget(8 * MIB)
    with budget.reserve(declared) as large, budget.reserve(declared) as another:
        large.grow(7 * MIB)
        with pytest.raises(Refused) as refused:
            another.grow(1)
        assert refused.value.problem is BUSY
        with budget.reserve(SMALL_BYTES) as small:
            small.grow(SMALL_BYTES)


def test_a_share_is_given_back_at_its_end() -> None:
    budget = MemoryBudget(SMALL_BYTES)
    with budget.reserve(1) as first, budget.reserve(1) as second:
        first.grow(SMALL_BYTES)
        with pytest.raises(Refused):
            second.grow(1)
    with budget.reserve(1) as third:
        third.grow(SMALL_BYTES)
