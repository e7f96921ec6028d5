"""Children of a parent that lives again, or begins again, after it had ended."""

from __future__ import annotations

import pytest
from support.family import Caller, Family, child_id, end_wait, gather_wait, spec
from support.waiter import sleep

from streams.serde.records import Lease

DAY = 86_400


def test_dead_jobs_of_a_list_may_live_again_before_it_is_listed() -> None:
    family = Family()
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
    family.seal(parent, 3)
    # a worker of "late" comes before the page of the list is read
    late = Caller(family.desk, "w2/b1", slots=100, types=("late",), backoff=(0,))
    late.heartbeat()
    for _ in range(4):
        family.worker.heartbeat(parent)
        late.heartbeat()
        family.desk.driver.advance(2)
    family.add(parent, 0, [spec(call, "late") for call in calls], "gather[all]")
    family.park(parent, gather_wait())
    for each in ids:
        lease = family.desk.lease(each)
        late.end(lease, "succeeded", result='"x"', free=100)
    family.desk.driver.advance(2)
    assert family.job(parent.job_id).status != "waiting"


def test_a_job_of_a_list_may_end_before_it_is_listed() -> None:
    family = Family()
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    parent, calls = family.root(), [f"gather[all]/{number}" for number in range(2)]
    ids = [child_id(parent, call) for call in calls]
    specs = [spec(call, abandoned=True) for call in calls]
    family.seal(parent, 2)
    family.add(parent, 0, specs, "gather[all]")
    family.park(parent, gather_wait(), sleep(10))
    family.boot("refund")
    for _ in range(60):
        held = [family.desk.lease(e) for e in ids if family.job(e).status == "running"]
        family.worker.heartbeat(*held)
        family.desk.driver.advance(5)
    assert family.job(parent.job_id).status == "dead"
    family.boot("draft_reply", "refund")
    leases = {}
    for _ in range(3):
        for lease in family.go_on(2):
            leases[lease.job_id] = lease
        family.worker.heartbeat(*leases.values())
    parent = leases[parent.job_id]
    family.seal(parent, 2)
    family.end(family.desk.lease(ids[0]))
    family.add(parent, 0, specs, "gather[all]")
    family.park(parent, gather_wait())
    family.desk.driver.advance(1)
    assert family.job(ids[1]).status == "running"
    assert family.job(parent.job_id).status == "waiting"


def begun_again(family: Family, root: Lease, middle: Lease) -> Lease:
    """A child that failed with its parent, begun anew by the parent's replay."""
    family.fail(middle, root)
    family.go_on(1)
    family.desk.replay("job_again", root.job_id)
    again = family.lease_of("job_again")
    family.enqueue(again)
    family.park(again, end_wait("c", middle.job_id))
    return family.lease_of(middle.job_id)


def after_a_long_sleep(family: Family, lease: Lease) -> Lease:
    """The job's next run, when its children have ended longer ago than jobs are kept."""
    family.park(lease, sleep(40 * DAY))
    family.pass_days(41)
    family.boot()
    return family.lease_of(lease.job_id)


def test_what_a_gather_collected_is_kept_for_a_parent_that_began_again() -> None:
    family = Family()
    root = family.root()
    middle = family.lease_of(family.enqueue(root))
    ids = family.gather(middle, 2)
    leases = {lease.job_id: lease for lease in family.go_on()}
    for each in ids:
        family.end(leases[each])
    middle = family.lease_of(middle.job_id)
    assert [o[0] for o in family.outcomes(middle, ids)] == ["succeeded"] * 2
    second = begun_again(family, root, middle)
    assert "gather[all]" in [left.id for left in second.steps]
    assert [o[0] for o in family.outcomes(second, ids)] == ["succeeded"] * 2
    second = after_a_long_sleep(family, second)
    assert [o[0] for o in family.outcomes(second, ids)] == ["succeeded"] * 2


def test_the_end_of_a_child_is_kept_for_a_parent_that_began_again() -> None:
    family = Family()
    root = family.root()
    middle = family.lease_of(family.enqueue(root))
    below = family.enqueue(middle)
    family.end(family.lease_of(below))
    second = begun_again(family, root, middle)
    assert "c" in [left.id for left in second.steps]
    second = after_a_long_sleep(family, second)
    family.park(second, end_wait("c", below))
    third = family.lease_of(middle.job_id)
    assert [left.raises for left in third.steps if left.kind == "job"] == [None]


def test_a_failed_child_keeps_its_scope_for_the_parent_that_began_again() -> None:
    """The job that begins again waits for its worker over midnight."""
    family = Family()
    family.desk.deploy(unhandled_ms=100 * DAY * 1000)
    family.boot()
    root = family.root()
    mid = family.enqueue(root)
    family.park(root, end_wait("c", mid))
    middle = family.lease_of(mid)
    below = family.enqueue(middle)
    lease = family.lease_of(below)
    reply = family.worker.claim(lease)
    family.worker.outcome(lease, reply, "done", '"sent"')
    family.fail(lease)
    family.park(middle, sleep(40 * DAY))
    family.pass_days(41)
    family.boot()
    middle = family.lease_of(mid)
    family.fail(middle)
    family.fail(family.lease_of(root.job_id))
    family.go_on(1)
    assert family.job(mid).status == "failed"
    assert family.job(below).status == "failed"
    family.boot("draft_reply")
    family.desk.replay("job_again", root.job_id)
    again = family.lease_of("job_again")
    family.enqueue(again)
    family.park(again, end_wait("c", mid))
    assert (family.job(mid).incarnation, family.job(mid).status) == (2, "pending")
    family.pass_days(1)
    assert (family.job(mid).incarnation, family.job(mid).status) == (2, "pending")
    family.boot()
    second = family.lease_of(mid, 5)
    assert "c" not in [left.id for left in second.steps]
    assert family.enqueue(second) == below
    once_more = family.lease_of(below)
    assert once_more.scope == lease.scope


@pytest.mark.parametrize("again_first", [False, True])
def test_no_dead_child_lives_again_below_a_cancelled_parent(again_first: bool) -> None:
    family = Family()
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    root = family.root()
    mid = family.enqueue(root)
    family.park(root, end_wait("c", mid))
    middle = family.lease_of(mid)
    below = family.enqueue(middle, type_="late")
    family.worker.stay(250, middle)
    assert family.job(below).status == "dead"
    family.fail(middle)
    family.fail(family.lease_of(root.job_id))
    family.go_on(1)
    if again_first:
        family.boot("draft_reply")
        family.desk.replay("job_again", root.job_id)
        again = family.lease_of("job_again")
        family.enqueue(again)
        family.park(again, end_wait("c", mid))
        assert (family.job(mid).incarnation, family.job(mid).status) == (2, "pending")
        family.desk.cancel("job_again")
        family.go_on(1)
        assert family.job(mid).status == "cancelled", family.job(mid).status
    family.boot("draft_reply", "refund", "late")
    leases = [lease.job_id for _ in range(3) for lease in family.go_on(5)]
    assert below not in leases


def test_a_dead_child_that_lives_again_ends_with_the_present_life_of_its_parent() -> None:
    family = Family()
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    root = family.root()
    mid = family.enqueue(root)
    family.park(root, end_wait("c", mid))
    middle = family.lease_of(mid)
    below = family.enqueue(middle, type_="late")
    family.worker.stay(250, middle)
    assert family.job(below).status == "dead"
    family.fail(middle)
    family.fail(family.lease_of(root.job_id))
    family.desk.replay("job_again", root.job_id)
    again = family.lease_of("job_again")
    family.enqueue(again)
    family.park(again, end_wait("c", mid))
    family.park(family.lease_of(mid), sleep(DAY))
    family.boot("late")
    family.park(family.lease_of(below, 5), sleep(DAY))
    assert (family.job(mid).incarnation, family.job(below).incarnation) == (2, 1)
    family.desk.cancel("job_again")
    family.go_on(1)
    assert [family.job(each).status for each in (mid, below)] == ["cancelled"] * 2
    assert family.leftovers() == []
