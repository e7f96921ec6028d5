"""Free slots as credits: never more than there are, never for ever where nobody needs them."""

from __future__ import annotations

import random

import pytest
from support.leases import lease_to

from streams.worker.lease.credits import (
    ON_ITS_WAY_SECONDS,
    TOGETHER_SECONDS,
    WANTING_SECONDS,
    Credits,
)
from streams.worker.lease.held_leases import HeldLeases


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shared(sources: int, slots: int) -> tuple[Credits, Clock]:
    """Sources that have got their shares, the first one the rest, too."""
    clock = Clock()
    credits = Credits(slots, clock)
    for source in range(sources):
        credits.open(source)
    clock.now += ON_ITS_WAY_SECONDS
    credits.level()
    return credits, clock


def unused(credits: Credits, partitions: int) -> list[int]:
    return [credits.unused(partition) for partition in range(partitions)]


def test_the_first_source_has_all_slots_until_others_get_their_shares() -> None:
    clock = Clock()
    credits = Credits(9, clock)
    for source in range(3):
        credits.open(source)
    assert unused(credits, 3) == [9, 0, 0]
    clock.now += ON_ITS_WAY_SECONDS
    credits.level()
    assert unused(credits, 3) == [3, 3, 3]
    for _ in range(3):
        credits.use(2)
    credits.level()
    assert unused(credits, 3) == [3, 3, 0]


def dialed(sources: int, slots: int, opened: int) -> tuple[Credits, Clock]:
    """The first of the sources that are dialed together have opened at once."""
    clock = Clock()
    credits = Credits(slots, clock)
    credits.dialed = sources
    for source in range(opened):
        credits.open(source)
    return credits, clock


@pytest.mark.parametrize(
    ("slots", "shares"),
    [(20, [5, 5, 5, 5]), (9, [3, 2, 2, 2]), (2, [1, 1, 0, 0]), (1, [1, 0, 0, 0])],
)
def test_sources_that_are_dialed_together_get_their_shares_at_once(
    slots: int, shares: list[int]
) -> None:
    credits, _ = dialed(4, slots, opened=4)
    assert unused(credits, 4) == shares


def test_the_share_of_a_source_that_does_not_open_goes_to_the_others() -> None:
    credits, clock = dialed(4, 20, opened=2)
    clock.now += TOGETHER_SECONDS / 2
    credits.level()
    assert unused(credits, 2) == [5, 5]
    for _ in range(5):
        credits.use(1)
    credits.want(1)
    assert unused(credits, 2) == [5, 0]
    clock.now += TOGETHER_SECONDS / 2
    credits.level()
    assert unused(credits, 2) == [8, 7]
    assert credits.owed(closed=False) == [0, 1]


def test_a_source_that_opens_late_gets_its_share_of_what_is_not_used() -> None:
    credits, clock = dialed(3, 9, opened=2)
    clock.now += TOGETHER_SECONDS
    credits.open(2)
    assert sum(unused(credits, 3)) == 9
    clock.now += ON_ITS_WAY_SECONDS
    credits.level()
    assert unused(credits, 3) == [3, 3, 3]


def test_sources_that_open_again_after_all_were_gone_share_the_slots_anew() -> None:
    credits, clock = dialed(2, 4, opened=2)
    credits.close(0)
    credits.close(1)
    clock.now += 60
    credits.open(1)
    assert credits.unused(1) == 2
    credits.open(0)
    assert unused(credits, 2) == [2, 2]


def test_a_lease_that_fills_many_slots_takes_those_that_are_kept() -> None:
    credits, clock = dialed(2, 6, opened=1)
    credits.use(0)
    credits.withhold(4)
    clock.now += TOGETHER_SECONDS
    credits.open(1)
    assert sum(unused(credits, 2)) == 1
    for _ in range(5):
        credits.give(0)
    assert sum(unused(credits, 2)) == 6


def test_a_source_that_comes_while_all_slots_are_used_gets_what_it_asks_for() -> None:
    credits, _ = shared(1, 2)
    credits.use(0)
    credits.use(0)
    credits.open(1)
    credits.want(1)
    credits.give(0)
    assert unused(credits, 2) == [0, 1]


def test_the_slots_of_a_source_that_is_gone_stay_slots() -> None:
    credits, _ = shared(2, 4)
    credits.use(0)
    credits.close(0)
    assert unused(credits, 2) == [0, 3]
    credits.give(0)
    assert unused(credits, 2) == [0, 4]
    credits.close(1)
    credits.open(2)
    assert credits.unused(2) == 4


def test_a_lease_uses_its_sources_credit_and_gets_it_back() -> None:
    credits, _ = shared(2, 4)
    credits.use(0)
    assert unused(credits, 2) == [1, 2]
    credits.give(0)
    assert unused(credits, 2) == [2, 2]


def test_a_lease_on_a_credit_that_was_moved_is_paid_by_the_richest() -> None:
    credits, _ = shared(3, 5)
    assert unused(credits, 3) == [3, 1, 1]
    credits.use(1)
    credits.use(1)
    assert unused(credits, 3) == [2, 0, 1]
    for _ in range(3):
        credits.use(0)
    with pytest.raises(ValueError, match="no credit is unused"):
        credits.use(0)


def test_freed_slots_go_to_those_who_wait_in_the_order_of_their_asking() -> None:
    credits, clock = shared(4, 1)
    credits.use(0)
    for partition in (2, 1, 2):
        credits.want(partition)
        clock.now += 0.1
    credits.give(0)
    assert unused(credits, 4) == [0, 0, 1, 0]
    credits.use(2)
    credits.give(2)
    assert unused(credits, 4) == [0, 1, 0, 0]
    credits.use(1)
    credits.give(1)
    assert unused(credits, 4) == [0, 1, 0, 0]


def test_who_asks_too_soon_gets_a_credit_once_another_has_not_used_it_for_a_while() -> None:
    credits, clock = dialed(2, 4, opened=2)
    for _ in range(2):
        credits.use(0)
    credits.want(0)
    assert unused(credits, 2) == [0, 2]
    clock.now += ON_ITS_WAY_SECONDS
    credits.level()
    assert unused(credits, 2) == [1, 1]
    credits.level()
    assert unused(credits, 2) == [1, 1]


def test_who_no_longer_asks_no_longer_waits() -> None:
    credits, clock = shared(2, 1)
    credits.use(0)
    credits.want(1)
    clock.now += WANTING_SECONDS
    credits.give(0)
    assert unused(credits, 2) == [1, 0]


def test_unused_credits_move_one_by_one_to_who_uses_them() -> None:
    credits, clock = shared(2, 8)
    clock.now += ON_ITS_WAY_SECONDS
    for _ in range(4):
        credits.use(0)
    credits.want(0)
    assert unused(credits, 2) == [1, 3]
    credits.use(0)
    assert unused(credits, 2) == [1, 2]
    clock.now += WANTING_SECONDS
    credits.use(0)
    assert unused(credits, 2) == [0, 2]


def test_a_credit_on_its_way_is_neither_asked_for_twice_nor_given_away() -> None:
    credits, clock = shared(3, 2)
    credits.want(2)
    credits.want(2)
    assert unused(credits, 3) == [1, 0, 1]
    credits.use(0)
    credits.want(1)
    assert unused(credits, 3) == [0, 0, 1]
    clock.now += ON_ITS_WAY_SECONDS
    credits.want(1)
    assert unused(credits, 3) == [0, 1, 0]


def test_a_partition_is_owed_a_word_when_its_limit_changed() -> None:
    credits, _ = shared(2, 4)
    assert credits.owed(closed=False) == [0, 1]
    for partition in (0, 1):
        credits.tell(partition, closed=False)
    credits.read(0)
    credits.use(0)
    assert credits.owed(closed=False) == []
    assert credits.owed(closed=True) == [0, 1]
    credits.give(0)
    assert credits.owed(closed=False) == [0]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_all_and_only_those_with_another_limit_are_owed_a_word(seed: int) -> None:
    rng = random.Random(seed)
    partitions, slots = rng.randint(1, 9), rng.randint(1, 12)
    credits, clock = shared(partitions, slots)
    told = dict[int, int]()
    running = 0
    for _ in range(300):
        clock.now += rng.choice((0, 0.3, 4))
        partition, closed = rng.randrange(partitions), rng.random() < 0.1
        closed_before = rng.random() < 0.1
        match rng.randrange(6):
            case 0:
                credits.want(partition)
            case 1 if running:
                credits.give(partition)
                running -= 1
            case 2 if running < slots:
                credits.use(partition)
                running += 1
            case 3:
                credits.read(partition)
            case 4:
                told[partition] = sum(credits.tell(partition, closed_before))
            case 5:
                credits.close(partition)
                credits.open(partition)
                told.pop(partition, None)
        limits = {p: sum(credits.word(p, closed)) for p in range(partitions)}
        assert set(credits.owed(closed)) == {p for p in limits if limits[p] != told.get(p)}


@pytest.mark.parametrize("seed", range(60))
def test_whatever_opens_and_closes_no_slot_is_promised_twice_and_none_is_kept_for_long(
    seed: int,
) -> None:
    rng = random.Random(seed)
    sources, slots = rng.randint(1, 5), rng.randint(1, 12)
    credits, clock = dialed(sources, slots, opened=0)
    there: set[int] = set()
    running: list[int] = []
    for _ in range(400):
        clock.now += rng.choice((0, 0.01, 0.3))
        source = rng.randrange(sources)
        match rng.randrange(6):
            case 0 if source not in there:
                credits.open(source)
                there.add(source)
            case 1:
                credits.close(source)
                there.discard(source)
            case 2:
                credits.want(source)
            case 3 if running:
                credits.give(running.pop(rng.randrange(len(running))))
            case 4 if len(running) < slots:
                credits.use(source)
                running.append(source)
            case _:
                credits.level()
        assert sum(unused(credits, sources)) <= slots - len(running)
    if there:
        clock.now += TOGETHER_SECONDS
        credits.level()
        assert sum(unused(credits, sources)) == slots - len(running)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_every_free_slot_is_the_credit_of_one_partition(seed: int) -> None:
    rng = random.Random(seed)
    partitions, slots = rng.randint(1, 9), rng.randint(1, 12)
    credits, clock = shared(partitions, slots)
    running: list[int] = []
    for _ in range(400):
        clock.now += rng.choice((0, 0.01, 0.3, 4))
        partition = rng.randrange(partitions)
        match rng.randrange(4):
            case 0:
                credits.want(partition)
            case 1 if running:
                credits.give(running.pop(rng.randrange(len(running))))
            case 2 if len(running) < slots:
                credits.use(partition)
                running.append(partition)
        told = unused(credits, partitions)
        assert min(told) >= 0
        assert sum(told) == slots - len(running)


def test_two_runs_under_one_id_fill_two_slots_and_free_two() -> None:
    held_leases = HeldLeases(3, margin=1.0, clock=Clock())
    held_leases.assigned = True
    held_leases.credits.open(0)
    lease = lease_to(0)
    first, second = (held_leases.take(lease, 0.0, 0) for _ in range(2))
    assert first is not None
    assert second is not None
    assert held_leases.free() == 1
    held_leases.vacate(second)
    held_leases.vacate(first)
    assert (held_leases.free(), held_leases.credits.unused(0)) == (3, 3)
