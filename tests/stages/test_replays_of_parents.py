"""Replays of parents in review: what these asked for goes on, and ends with the replay."""

from __future__ import annotations

from typing import get_args

import pytest
from support.family import Family
from support.waiter import sleep

from streams.runtime.memory_broker import CrashPoint
from streams.serde.records import Lease

DAY = 86_400
KEPT_DAYS = 30


@pytest.fixture
def family() -> Family:
    return Family()


def park_all(family: Family, job_ids: list[str]) -> None:
    """Run these jobs, and have each wait for a year."""
    for _ in range(3):
        for lease in family.go_on():
            if lease.job_id in job_ids:
                family.park(lease, sleep(300 * DAY))
    assert statuses(family, job_ids) == {"waiting"}


def statuses(family: Family, job_ids: list[str]) -> set[str]:
    return {family.job(each).status for each in job_ids}


def replayed(family: Family, lease: Lease, name: str, *, fresh_scope: bool = False) -> Lease:
    """The lease of the replay of a job whose run asks a person."""
    family.end(lease, "review", error="who knows", diverged="step")
    family.desk.replay(name, lease.job_id, fresh_scope=fresh_scope)
    return family.lease_of(name)


@pytest.fixture
def root(family: Family) -> Lease:
    return family.root()


@pytest.fixture
def middle(family: Family, root: Lease) -> Lease:
    return family.lease_of(family.enqueue(root))


@pytest.fixture
def below(family: Family, middle: Lease) -> list[str]:
    """Two jobs that the middle one asked for, and that wait."""
    found = [family.enqueue(middle, call) for call in ("a", "b")]
    park_all(family, found)
    return found


def test_what_it_asked_for_goes_on_and_fails_with_the_replay(
    family: Family, root: Lease, middle: Lease, below: list[str]
) -> None:
    again = replayed(family, middle, "job_again")
    assert family.enqueue(again, "a") == below[0]
    family.go_on(2)
    assert statuses(family, below) == {"waiting"}
    family.fail(again)
    family.go_on(2)
    assert statuses(family, below) == {"cancelled"}
    family.end(root)
    assert family.leftovers() == []


@pytest.mark.parametrize("continues", [False, True])
def test_a_cancel_reaches_it_past_replays_that_ended_long_ago(
    family: Family, root: Lease, middle: Lease, below: list[str], continues: bool
) -> None:
    family.park(root, sleep(300 * DAY))
    again = replayed(family, replayed(family, middle, "job_again"), "job_last")
    if continues:
        family.end(again, "continued", result='"second"')
        again = family.lease_of("job_last")
    family.end(again)
    family.pass_days(2 * KEPT_DAYS)
    assert statuses(family, below) == {"waiting"}
    family.desk.cancel(root.job_id)
    family.go_on(2)
    assert statuses(family, below) == {"cancelled"}
    assert family.leftovers() == []
    family.pass_days(KEPT_DAYS + 5)
    assert family.desk.driver.output("workflows")[-1].value is None


def test_a_replay_that_is_cancelled_before_it_is_made_takes_it_along(
    family: Family, root: Lease, middle: Lease, below: list[str]
) -> None:
    family.end(middle, "review", error="who knows", diverged="step")
    with family.desk.held_back():
        family.desk.cancel("job_again", 1)
        family.desk.replay("job_again", middle.job_id)
    family.go_on(2)
    assert statuses(family, ["job_again", *below]) == {"cancelled"}
    family.end(root)
    assert family.leftovers() == []


def test_a_replay_in_a_fresh_scope_asks_for_other_jobs(
    family: Family, middle: Lease, below: list[str]
) -> None:
    again = replayed(family, middle, "job_again", fresh_scope=True)
    family.go_on(2)
    assert statuses(family, below) == {"cancelled"}
    assert family.enqueue(again, "a") not in below


def test_jobs_of_a_gather_end_if_that_of_the_replay_fails(
    family: Family, root: Lease, middle: Lease
) -> None:
    first, *others = family.gather(middle, 3, parks=False)
    leases = {lease.job_id: lease for lease in family.go_on()}
    for each in others:
        family.park(leases[each], sleep(300 * DAY))
    again = replayed(family, middle, "job_again")
    assert family.gather(again, 3, limit=1, parks=False)[0] == first
    family.fail(leases[first])
    family.go_on(2)
    assert statuses(family, others) == {"cancelled"}
    family.end(again)
    family.end(root)
    family.go_on(1)
    assert family.leftovers() == []


@pytest.mark.parametrize("point", get_args(CrashPoint))
def test_a_replay_goes_on_with_a_list_of_which_no_job_runs_twice(
    family: Family, middle: Lease, point: CrashPoint
) -> None:
    ids = family.gather(middle, 6, limit=3, parks=False)
    leases = family.go_on()
    for lease in leases[:2]:
        family.end(lease)
    family.end(middle, "review", error="who knows", diverged="step")
    leases += family.go_on()
    family.desk.driver.crash("dispatcher", point)
    family.desk.replay("job_again", middle.job_id)
    if point == "after_commit":  # the lease was committed and not handed out: it is given anew
        family.worker.heartbeat(*leases[2:])
    again = family.lease_of("job_again", 1)
    family.desk.driver.crash("dispatcher", point)
    family.gather(again, 6, limit=3)
    for lease in leases[2:]:
        family.end(lease)
    for _ in range(4):
        some = family.go_on(1)
        leases += some
        for lease in some:
            if lease.job_id in ids:
                family.end(lease)
    last = next(lease for lease in leases if lease.job_id == "job_again")
    assert sorted(lease.job_id for lease in leases if lease.job_id in ids) == sorted(ids)
    assert [each[0] for each in family.outcomes(last, ids)] == ["succeeded"] * 6
    family.end(last)


def test_a_gather_of_the_next_incarnation_ends_no_jobs_of_the_one_before(
    family: Family, middle: Lease
) -> None:
    others = family.gather(middle, 2, parks=False)
    park_all(family, others)
    again = replayed(family, middle, "job_again")
    family.end(again, "continued", result='"second"')
    again = family.lease_of("job_again")
    (first,) = family.gather(again, 1, parks=False)
    family.fail(family.lease_of(first))
    family.go_on(2)
    assert statuses(family, others) == {"waiting"}


def test_nothing_is_left_of_a_replay_if_the_old_job_begins_again_before_all_have_ended(
    family: Family, root: Lease, middle: Lease
) -> None:
    running = family.lease_of(family.enqueue(middle))
    family.fail(replayed(family, middle, "job_again"), root)
    family.desk.replay("job_last", root.job_id)
    last = family.lease_of("job_last")
    assert family.enqueue(last) == middle.job_id
    middle = family.lease_of(middle.job_id)
    family.end(running, "cancelled")
    family.end(middle)
    family.end(last)
    family.go_on(1)
    assert family.leftovers() == []
