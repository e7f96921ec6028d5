"""The room for bodies in flight, and who finds a place in it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ingress.receive.body import REQUEST_BYTES, SMALL_BYTES, MemoryBudget
from ingress.receive.problems import BUSY, Refused

MIB = 1024 * 1024


@pytest.mark.parametrize("declared", [None, SMALL_BYTES + 1])
def test_large_bodies_leave_an_eighth_to_small_ones(declared: int | None) -> None:
    """Also their first bytes do, and a body without a declared length may be a large one."""
    budget = MemoryBudget(8 * MIB)
    with budget.reserve("acme", declared) as large:
        large.grow(7 * MIB - 2 * REQUEST_BYTES)
        with budget.reserve("bolt", declared) as another:
            with pytest.raises(Refused) as refused:
                another.grow(1)
            assert refused.value.problem is BUSY
        with budget.reserve("bolt", SMALL_BYTES) as small:
            small.grow(SMALL_BYTES)


def test_a_share_is_given_back_at_its_end() -> None:
    budget = MemoryBudget(2 * REQUEST_BYTES + SMALL_BYTES)
    with budget.reserve("acme", 1) as first, budget.reserve("bolt", 1) as second:
        first.grow(SMALL_BYTES)
        with pytest.raises(Refused):
            second.grow(1)
    with budget.reserve("bolt", 1) as third:
        third.grow(SMALL_BYTES)


def test_requests_count_though_their_bodies_are_empty() -> None:
    budget = MemoryBudget(MIB)
    with ExitStack() as held:
        for number in range(MIB // REQUEST_BYTES):
            held.enter_context(budget.reserve(f"tenant-{number}", 0))
        with pytest.raises(Refused):
            held.enter_context(budget.reserve("another", 0))
    with budget.reserve("another", 0):
        pass


def test_a_tenant_whose_requests_flood_leaves_room_to_the_next_and_those_to_further_ones() -> None:
    budget = MemoryBudget(MIB)
    with ExitStack() as held:
        counts = [flood(budget, tenant_id, held) for tenant_id in ("acme", "bolt", "nobody")]
    assert counts == [48, 12, 3]


def flood(budget: MemoryBudget, tenant_id: str, held: ExitStack) -> int:
    """Send a tenant as many requests as there is room for; returns how many."""
    for count in range(MIB // REQUEST_BYTES):
        try:
            held.enter_context(budget.reserve(tenant_id, 0))
        except Refused:
            return count
    return MIB // REQUEST_BYTES


def test_one_large_body_may_take_all_that_is_not_kept_for_small_ones() -> None:
    budget = MemoryBudget(8 * MIB)
    with budget.reserve("acme", None) as alone:
        for size in range(MIB, 7 * MIB, MIB):
            alone.grow(size)
