"""Jobs of jobs whose parents live again: each belongs to the life that asked for it last."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.family import Family, child_id, end_wait, gather_wait, spec
from support.waiter import sleep

from streams.dispatcher.parts import children as children_part
from streams.serde.keys import after

DAY = 86_400
KEPT_DAYS = 30
MANY = 40


@pytest.fixture
def family() -> Family:
    return Family()


@pytest.fixture
def slow_family(monkeypatch: pytest.MonkeyPatch) -> Family:
    """One whose stage ends one job in each step."""
    monkeypatch.setattr(children_part, "AT_ONCE", 1)
    return Family()


def park_all(family: Family, job_ids: list[str]) -> None:
    """Run these jobs, and have each wait for days."""
    for _ in range(3):
        for lease in family.go_on():
            if lease.job_id in job_ids:
                family.park(lease, sleep(300 * DAY))
    assert {family.job(each).status for each in job_ids} == {"waiting"}


def statuses(family: Family, job_ids: list[str]) -> set[str]:
    return {family.job(each).status for each in job_ids}


def test_the_jobs_of_a_failed_gather_end_and_not_those_of_the_next_incarnation(
    slow_family: Family,
) -> None:
    family = slow_family
    parent = family.root()
    first = family.gather(parent, MANY, limit=MANY)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.fail(leases[first[0]])
    family.end(family.lease_of(parent.job_id), "continued", result='"again"')
    parent = family.lease_of(parent.job_id)
    second = family.gather(parent, MANY, limit=MANY)
    family.go_on(20)
    assert not any(family.job(each).cancel_requested for each in second)
    assert all(family.job(each).cancel_requested for each in first[1:])


def test_a_parent_that_is_asked_for_again_keeps_the_jobs_that_it_asks_for_again(
    slow_family: Family,
) -> None:
    family = slow_family
    root = family.root()
    middle = family.lease_of(family.enqueue(root))
    ids = [family.enqueue(middle, f"c{n}") for n in range(MANY)]
    park_all(family, ids)
    with family.desk.held_back(logged=True):
        family.fail(middle, root)
        family.desk.replay("job_again", root.job_id)
    family.enqueue(family.lease_of("job_again"))
    middle = family.lease_of(middle.job_id)
    kept = ids[: MANY // 2]
    with family.desk.held_back():
        for number in range(len(kept)):
            family.say_enqueue(middle, f"c{number}")
    before = statuses(family, kept)
    assert "waiting" in before, "the stage has not ended all of them yet"
    family.go_on(20)
    assert "cancelled" not in statuses(family, kept)
    assert statuses(family, ids[MANY // 2 :]) == {"cancelled"}


def test_a_gather_goes_on_whose_parent_a_replay_has_before_the_stage_ended_it(
    slow_family: Family,
) -> None:
    family = slow_family
    root = family.root()
    calls = sorted((f"c{n}" for n in range(MANY)), key=lambda call: child_id(root, call))
    ids = [family.enqueue(root, call) for call in calls]
    leases = {lease.job_id: lease for _ in range(3) for lease in family.go_on()}
    middle = leases.pop(ids[-1])
    for each in ids[:-1]:
        family.park(leases[each], sleep(300 * DAY))
    first, second = family.gather(middle, 2, limit=1)
    below = family.lease_of(first)
    with family.desk.held_back(logged=True):
        family.end(below)
        family.fail(root)
        family.desk.replay("job_again", root.job_id)
    assert family.enqueue(family.lease_of("job_again"), calls[-1]) == middle.job_id
    assert statuses(family, ids) == {"cancelled", "waiting"}, "the stage has not ended all yet"
    family.end(family.lease_of(second, 20))
    assert family.lease_of(middle.job_id).steps[-1].raises is None


def test_an_ended_parent_is_forgotten_once_another_has_its_last_job(family: Family) -> None:
    root = family.root()
    middle = family.lease_of(family.enqueue(root))
    child = family.lease_of(family.enqueue(middle))
    grandchild = family.lease_of(family.enqueue(child))
    family.fail(child, middle)
    family.desk.replay("job_again", middle.job_id)
    again = family.lease_of("job_again")
    assert family.enqueue(again) == child.job_id
    family.end(grandchild, "cancelled")
    family.end(family.lease_of(child.job_id))
    family.end(again)
    family.end(root)
    assert family.leftovers() == []
    family.pass_days(KEPT_DAYS + 5)
    assert family.desk.driver.output("workflows")[-1].value is None


def test_what_a_fresh_replay_did_is_not_done_again_by_the_replay_of_its_parent(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.fail(family.lease_of(child), parent)
    family.desk.replay("job_fresh", child, fresh_scope=True)
    fresh = family.lease_of("job_fresh")
    family.worker.outcome(fresh, family.worker.claim(fresh), "done", '"sent"')
    family.worker.step(fresh, "charge", '"done"')
    family.fail(fresh)
    family.desk.replay("job_again", parent.job_id)
    assert family.enqueue(family.lease_of("job_again")) == child
    lease = family.lease_of(child)
    assert lease.scope == fresh.scope
    assert [left.id for left in lease.steps] == ["charge"]
    assert family.worker.claim(lease).kind == "done"


def test_a_job_goes_on_behind_what_its_replay_continued_with(family: Family) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.fail(family.lease_of(child), parent)
    family.desk.replay("job_alone", child)
    family.end(family.lease_of("job_alone"), "continued", result='"second"')
    alone = family.lease_of("job_alone")
    family.worker.outcome(alone, family.worker.claim(alone), "done", '"sent"')
    family.fail(alone)
    family.desk.replay("job_again", parent.job_id)
    family.enqueue(family.lease_of("job_again"))
    lease = family.lease_of(child)
    assert lease.input == '"second"'
    assert family.worker.claim(lease).kind == "done"


def test_a_job_that_never_ran_has_the_steps_of_its_replay_once_it_is_asked_for_again(
    family: Family,
) -> None:
    """No worker handled its type for a while."""
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    parent = family.root()
    child = family.enqueue(parent, type_="late")
    family.park(parent, sleep(260))
    family.worker.stay(250)
    assert (family.job(child).status, family.job(child).epoch) == ("dead", 0)
    family.desk.replay("job_alone", child)
    family.boot("draft_reply", "refund", "late")
    alone = family.lease_of("job_alone")
    family.worker.step(alone, "charge", '"done"')
    family.fail(alone)
    family.fail(family.lease_of(parent.job_id, 15))
    family.desk.replay("job_again", parent.job_id)
    assert family.enqueue(family.lease_of("job_again"), type_="late") == child
    assert [left.id for left in family.lease_of(child).steps] == ["charge"]


def test_effects_stay_known_while_a_job_works_in_the_scope_of_its_former_replay(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.fail(family.lease_of(child), parent)
    family.desk.replay("job_fresh", child, fresh_scope=True)
    fresh = family.lease_of("job_fresh")
    family.worker.outcome(fresh, family.worker.claim(fresh), "done", '"sent"')
    family.fail(fresh)
    ends = [f"job_again{number}" for number in range(3)]
    for before, job_id in pairwise([parent.job_id, *ends]):
        family.desk.replay(job_id, before)
        again = family.lease_of(job_id)
        family.enqueue(again)
        lease = family.lease_of(child)
        if job_id != ends[-1]:
            family.fail(lease, again)
    family.park(again, end_wait("c", child))
    family.park(lease, sleep(3 * KEPT_DAYS * DAY))
    family.pass_days(2 * KEPT_DAYS)
    family.pass_days(KEPT_DAYS + 5)
    family.boot()
    assert family.worker.claim(family.lease_of(child)).kind == "done"


def test_the_steps_of_a_life_are_forgotten_that_ended_long_before_the_next_one(
    family: Family,
) -> None:
    parent = family.root()
    child = family.lease_of(family.enqueue(parent))
    family.worker.step(child, "charge", '"done"')
    family.fail(child)
    family.park(parent, sleep(1.5 * KEPT_DAYS * DAY))
    other = family.root("other")
    family.end(other, "continued", result='"second"')
    family.park(family.lease_of(other.job_id), sleep(300 * DAY))
    family.pass_days(1.5 * KEPT_DAYS + 1)
    family.boot()
    family.fail(family.lease_of(parent.job_id))
    family.desk.replay("job_again", parent.job_id)
    family.enqueue(family.lease_of("job_again"))
    family.park(family.lease_of(child.job_id), sleep(300 * DAY))
    family.pass_days(KEPT_DAYS + 2)
    checkpoints = family.desk.driver.store("dispatcher", "checkpoints")
    first, second = (f"{child.job_id}\0{number}\0".encode() for number in (1, 2))
    assert len(list(checkpoints.range(second, after(second)))) == 1
    assert list(checkpoints.range(first, after(first))) == []


def test_a_gather_is_refused_if_one_of_its_jobs_waits_for_the_parent_already(
    family: Family,
) -> None:
    parent = family.root()
    first, second = family.gather(parent, 2, parks=False)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.park(leases[first], end_wait("x", parent.job_id))
    family.park(parent, gather_wait())
    (left,) = family.lease_of(parent.job_id).steps
    assert (left.raises, "wait for ever" in left.message) == ("WaitRefused", True)
    assert family.job(second).status == "running"


def test_a_gather_that_is_over_is_not_refused_for_a_job_that_waits_for_the_parent(
    family: Family,
) -> None:
    parent = family.root()
    first, second = family.gather(parent, 2, parks=False)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.park(leases[first], end_wait("x", parent.job_id))
    family.fail(leases[second])
    family.park(parent, gather_wait())
    (left,) = family.lease_of(parent.job_id).steps
    assert left.raises == "ChildFailed"


def test_a_gather_of_jobs_that_wait_with_a_time_is_not_refused(family: Family) -> None:
    parent = family.root()
    (first,) = family.gather(parent, 1, parks=False)
    lease = family.lease_of(first)
    family.park(lease, end_wait("x", parent.job_id, timeout_ms=1_000))
    family.park(parent, gather_wait())
    assert family.job(parent.job_id).status == "waiting"
    family.end(family.lease_of(first, 2))
    assert [left.raises for left in family.lease_of(parent.job_id).steps] == [None]


@pytest.mark.parametrize("last", ["root", "middle", "deep"])
def test_a_circle_through_a_gather_is_refused_whichever_waits_last(
    family: Family, last: str
) -> None:
    root = family.root()
    family.seal(root, 1)
    family.add(root, 0, [spec("gather[all]/0")], "gather[all]")
    middle = family.lease_of(child_id(root, "gather[all]/0"))
    deep = family.lease_of(family.enqueue(middle))
    parks = {
        "root": (root, gather_wait()),
        "middle": (middle, end_wait("c", deep.job_id)),
        "deep": (deep, end_wait("x", root.job_id)),
    }
    for name in sorted(parks, key=lambda each: each == last):
        family.park(*parks[name])
    refused = parks[last][0]
    left = family.lease_of(refused.job_id).steps[-1]
    assert (left.raises, "wait for ever" in left.message) == ("WaitRefused", True)


def test_a_circle_through_a_gather_is_refused_though_many_others_wait_for_the_parent(
    family: Family,
) -> None:
    parent = family.root()
    (child,) = family.gather(parent, 1, parks=False)
    lease = family.lease_of(child)
    others = [f"job_000{number}" for number in range(150)]
    with family.desk.held_back():
        for each in others:
            family.desk.submit(each)
    leases = [found for _ in range(3) for found in family.go_on() if found.job_id in others]
    with family.desk.held_back():
        for other in leases:
            family.park(other, end_wait("x", parent.job_id))
    assert statuses(family, others) == {"waiting"}
    family.park(lease, end_wait("x", parent.job_id))
    assert family.job(child).status == "waiting"
    family.park(parent, gather_wait())
    (left,) = family.lease_of(parent.job_id).steps
    assert (left.raises, "wait for ever" in left.message) == ("WaitRefused", True)


@pytest.mark.parametrize("how", ["job", "gather"])
def test_a_circle_that_is_closed_while_one_of_its_jobs_runs_is_refused(
    family: Family, how: str
) -> None:
    parent, nap = family.root(), sleep(5, "nap", group=1)
    if how == "job":
        child = family.enqueue(parent)
        wait = end_wait("c", child)
    else:
        (child,), wait = family.gather(parent, 1, parks=False), gather_wait()
    family.park(parent, wait, nap)
    leases = {lease.job_id: lease for lease in family.go_on(6)}
    family.park(leases[child], end_wait("x", parent.job_id))
    assert family.job(child).status == "waiting"
    family.park(leases[parent.job_id], wait)
    again = family.lease_of(parent.job_id)
    left = next(each for each in again.steps if each.id == wait.id)
    assert (left.raises, "wait for ever" in left.message) == ("WaitRefused", True)
    family.end(again)
    assert family.job(child).status != "waiting"


@pytest.mark.parametrize("needs_all", [True, False])
def test_a_circle_beside_another_wait_is_refused_if_both_are_needed(
    family: Family, needs_all: bool
) -> None:
    parent = family.root()
    first, other = family.enqueue(parent, "a"), family.enqueue(parent, "b")
    waits = (end_wait(*each, needs_all=needs_all) for each in (("a", first), ("b", other)))
    family.park(parent, *waits)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.park(leases[first], end_wait("x", parent.job_id))
    assert (family.job(first).status == "waiting") is not needs_all
    family.end(leases[other])
    if needs_all:
        again = family.lease_of(first)
        assert [left.raises for left in again.steps] == ["WaitRefused"]
        family.end(again)
    family.end(family.lease_of(parent.job_id))
    family.go_on()
    assert family.job(parent.job_id).status == "succeeded"
