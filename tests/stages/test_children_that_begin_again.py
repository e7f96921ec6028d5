"""Children that end, are replayed and begin again: none is made twice, and none is cut off."""

from __future__ import annotations

from typing import Any

import pytest
from support.family import Family, child_id, end_wait, gather_wait, spec
from support.waiter import sleep

from streams.serde.records import Lease

DAY = 86_400
KEPT_DAYS = 30


@pytest.fixture
def family() -> Family:
    return Family()


def test_a_job_whose_newest_replay_never_ran_has_the_steps_of_the_one_before(
    family: Family,
) -> None:
    """No worker handled its type for a while."""
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    parent = family.root()
    child = family.enqueue(parent, type_="late")
    family.park(parent, sleep(260))
    family.worker.stay(250)
    family.desk.replay("job_alone", child)
    family.boot("draft_reply", "refund", "late")
    alone = family.lease_of("job_alone")
    family.worker.step(alone, "charge", '"done"')
    family.fail(alone)
    with family.desk.held_back():
        family.desk.replay("job_later", alone.job_id)
        family.desk.cancel("job_later")
    assert [family.job(each).epoch for each in (child, "job_later")] == [0, 0]
    family.fail(family.lease_of(parent.job_id, 15))
    family.desk.replay("job_again", parent.job_id)
    assert family.enqueue(family.lease_of("job_again"), type_="late") == child
    assert [left.id for left in family.lease_of(child).steps] == ["charge"]


def test_no_job_begins_again_beside_a_replay_that_works_in_its_scope(family: Family) -> None:
    """Two such jobs would take each other's gathered jobs, and a gather would wait for ever."""
    parent = family.root()
    child = family.enqueue(parent)
    family.fail(family.lease_of(child), parent)
    family.desk.replay("job_alone", child)
    family.fail(family.lease_of("job_alone"))
    family.desk.replay("job_again", parent.job_id)
    again = family.lease_of("job_again")
    family.enqueue(again)
    family.fail(family.lease_of(child), again)
    family.desk.replay("job_later", "job_alone")
    later = family.lease_of("job_later")
    (below,) = family.gather(later, 1)
    lease = family.lease_of(below)
    family.desk.replay("job_last", again.job_id)
    last = family.lease_of("job_last")
    assert family.enqueue(last) == later.job_id
    family.park(last, end_wait("c", later.job_id))
    family.end(lease)
    family.end(family.lease_of(later.job_id))
    family.end(family.lease_of(last.job_id))
    family.go_on(1)
    ended = [family.job(each).status for each in (below, later.job_id, last.job_id)]
    assert ended == ["succeeded"] * 3
    assert family.job(child).replayed_as == later.job_id
    assert family.leftovers() == []


def test_no_gathered_job_is_made_again_as_long_as_its_parent_can_be_replayed(
    family: Family,
) -> None:
    parent = family.root()
    first, second = family.gather(parent, 2)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.end(leases[first])
    family.park(leases[second], sleep(20 * DAY))
    family.pass_days(21)
    family.boot()
    family.fail(family.lease_of(second))
    family.fail(family.lease_of(parent.job_id))
    family.pass_days(KEPT_DAYS - 5)
    family.boot()
    family.desk.replay("job_again", parent.job_id)
    family.gather(family.lease_of("job_again"), 2)
    begun = {lease.job_id for _ in range(3) for lease in family.go_on()}
    assert begun == {second}


def test_what_a_cancelled_job_had_asked_for_is_kept_while_it_may_begin_again(
    family: Family,
) -> None:
    root = family.root()
    middle = family.lease_of(family.enqueue(root))
    below = family.enqueue(middle)
    family.end(family.lease_of(below))
    family.park(middle, sleep(100 * DAY))
    family.park(root, sleep(20 * DAY))
    family.pass_days(21)
    family.boot()
    family.fail(family.lease_of(root.job_id))
    family.go_on(1)
    assert family.job(middle.job_id).status == "cancelled"
    family.pass_days(KEPT_DAYS - 5)
    family.boot()
    family.desk.replay("job_again", root.job_id)
    family.enqueue(family.lease_of("job_again"))
    assert family.enqueue(family.lease_of(middle.job_id)) == below
    assert [lease.job_id for lease in family.go_on()] == []
    assert family.job(below).status == "succeeded"


def collected(family: Family) -> tuple[Lease, list[str], list[Any]]:
    """A run whose gather is over, its jobs, and how these ended: no worker handled the first."""
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    parent = family.root()
    calls = ["gather[all]/0", "gather[all]/1"]
    family.seal(parent, 2, tolerated=2)
    family.add(parent, 0, [spec(calls[0], "late"), spec(calls[1])], "gather[all]")
    ids = [child_id(parent, call) for call in calls]
    family.end(family.lease_of(ids[1]))
    family.worker.stay(250, parent)
    family.park(parent, gather_wait())
    again = family.lease_of(parent.job_id)
    found = family.outcomes(again, ids)
    assert [each[0] for each in found] == ["dead", "succeeded"]
    return again, ids, found


def revive(family: Family) -> dict[str, Lease]:
    """A worker handles the type of the dead job; the leases that it gets."""
    family.boot("draft_reply", "refund", "late")
    return {lease.job_id: lease for _ in range(3) for lease in family.go_on(5)}


def test_what_a_gather_has_collected_stays_if_a_dead_job_of_it_lives_again(
    family: Family,
) -> None:
    again, ids, found = collected(family)
    family.park(again, sleep(20))
    family.end(revive(family)[ids[0]])
    again = family.lease_of(again.job_id, 10)
    assert family.outcomes(again, ids) == found
    assert family.job(ids[0]).status == "succeeded"
    family.end(again)
    family.pass_days(KEPT_DAYS + 5)
    assert family.leftovers() == []


@pytest.mark.parametrize("lives", ["before", "after"])
def test_a_replay_reads_what_the_gather_of_its_parent_has_collected(
    family: Family, lives: str
) -> None:
    """Before the end of the old job a dead one of its list lives again, or after that."""
    again, ids, found = collected(family)
    if lives == "before":
        family.park(again, sleep(20))
        family.end(revive(family)[ids[0]])
        again = family.lease_of(again.job_id, 10)
    family.fail(again)
    family.go_on(5)
    family.desk.replay("job_again", again.job_id)
    again = family.lease_of("job_again")
    assert "gather[all]" in [left.id for left in again.steps]
    if lives == "after":
        family.park(again, sleep(20))
        revive(family)
        assert family.job(ids[0]).status != "dead"
        again = family.lease_of("job_again", 10)
    assert family.outcomes(again, ids) == found
    family.end(again)
    family.pass_days(KEPT_DAYS + 5)
    assert family.leftovers() == []


def test_a_list_that_is_gathered_again_is_read_as_its_jobs_end_then(family: Family) -> None:
    """No worker handled the type of its job for a while."""
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    lease, call = family.root(), "gather[all]/0"
    child = child_id(lease, call)
    family.seal(lease, 1)
    family.add(lease, 0, [spec(call, "late")], "gather[all]")
    family.worker.stay(250, lease)
    family.park(lease, gather_wait())
    family.park(family.lease_of(lease.job_id), sleep(20))
    family.end(revive(family)[child])
    family.fail(family.lease_of(lease.job_id, 10))
    family.desk.replay("job_again", lease.job_id)
    again = family.lease_of("job_again")
    family.seal(again, 1)
    family.add(again, 0, [spec(call, "late")], "gather[all]")
    family.park(again, gather_wait())
    (told,) = family.outcomes(family.lease_of(again.job_id), [child])
    assert told[0] == "succeeded"


def test_a_parent_that_lives_again_counts_each_job_of_its_list_once(family: Family) -> None:
    """No worker handled the types of both for a while; the parent's is handled first."""
    family.desk.deploy(unhandled_ms=60_000)
    family.boot("draft_reply")
    parent, calls = family.root(), [f"gather[all]/{number}" for number in range(3)]
    ids = [child_id(parent, call) for call in calls]
    family.seal(parent, 3)
    family.add(parent, 0, [spec(call, "late") for call in calls], "gather[all]")
    family.park(parent, gather_wait())
    family.boot("other")
    family.worker.stay(500)
    assert {family.job(each).status for each in (parent.job_id, *ids)} == {"dead"}
    family.boot("draft_reply")
    parent = family.lease_of(parent.job_id, 5)
    family.seal(parent, 3, limit=2)
    family.add(parent, 0, [spec(call, "late") for call in calls], "gather[all]")
    family.park(parent, gather_wait())
    leases = revive(family)
    for each in ids:
        family.end(leases[each])
    assert [left.raises for left in family.lease_of(parent.job_id).steps] == [None]


def test_a_job_that_continues_does_not_keep_what_its_former_runs_asked_for(family: Family) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.end(family.lease_of(child))
    family.end(parent, "continued", result='"second"')
    family.park(family.lease_of(parent.job_id), sleep(300 * DAY))
    family.pass_days(KEPT_DAYS + 5)
    rows = [r.value for r in family.desk.driver.output("jobs") if r.key == child.encode()]
    assert rows[-1] is None
