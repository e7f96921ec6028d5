"""Workers that all partitions of a process share, and workers that may run some tenants' jobs."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.shared_limits import Floor

from streams.runtime.memory_broker import CrashPoint
from streams.serde.records import Cancel, Claim, Ended, Heartbeat, Outcome


def one_slot(floor: Floor) -> ScriptedWorker:
    """A worker with one slot, which is connected to the process."""
    worker = ScriptedWorker(floor.places[0], "one/b1", slots=1)
    worker.heartbeat()
    return worker


def test_partitions_take_turns_with_the_credits_of_a_worker() -> None:
    """The partition where a run ends took the credit again, as long as it had jobs."""
    floor = Floor(partitions=3)
    floods, single = floor.places[:2], floor.places[2]
    for place in floods:
        place.submit_some(20)
    worker = one_slot(floor)
    floor.driver.advance(0.2)
    single.submit_some(1)
    tenants = [_end(floor, worker) for _ in range(9)]
    assert tenants.index("tenant2") <= 3, "it waited for each other one once"
    assert abs(tenants.count("tenant0") - tenants.count("tenant1")) <= 2


def _end(floor: Floor, worker: ScriptedWorker) -> str:
    lease = floor.places[0].leases()[-1]
    place = next(each for each in floor.places if each.tenant_id == lease.tenant_id)
    worker.beat(1)
    body = Ended(lease.run_id, "succeeded", None, None, None, None)
    Desk.order(place, worker.name, body, lease.job_id, lease.epoch, lease.tenant_id)
    return lease.tenant_id


def test_a_credit_waits_for_no_partition_that_needs_it_no_more() -> None:
    floor = Floor(partitions=2)
    first, second = floor.places
    first.submit_some(3)
    worker = one_slot(floor)
    (waiting,) = second.submit_some(1)
    floor.driver.advance(0.2)
    second.command(Cancel("not needed", "ops"), waiting, tenant=second.tenant_id)
    floor.driver.advance(0.2)
    for _ in range(2):
        _end(floor, worker)
    assert len(first.leases()) == 3


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_process_that_died_holds_no_place_among_the_partitions(point: CrashPoint) -> None:
    floor = Floor(partitions=2)
    first, second = floor.places
    for place in floor.places:
        place.submit_some(5)
    one_slot(floor)
    floor.driver.crash("dispatcher", point)
    floor.driver.advance(1)
    one_slot(floor)
    floor.driver.advance(32)
    worker = ScriptedWorker(first, "two/b1", slots=20)
    worker.heartbeat()
    floor.driver.advance(1)
    assert {lease.tenant_id for lease in second.leases()} == {"tenant0", "tenant1"}
    assert len({lease.job_id for lease in first.leases()}) == 10


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_worker_of_some_tenants_gets_their_jobs_alone(desk: Desk) -> None:
    worker = ScriptedWorker(desk, tenants=frozenset({"acme", "bolt"}))
    worker.heartbeat()
    ids = {tenant: desk.event("t1", tenant) for tenant in ("globex", "acme", "initech", "bolt")}
    desk.driver.advance(1)
    assert [lease.tenant_id for lease in desk.leases()] == ["acme", "bolt"]
    assert desk.job(ids["globex"]).status == "pending"
    ScriptedWorker(desk, "w2/b1").heartbeat()
    assert desk.taker(ids["globex"]) == "w2/b1"


def test_jobs_that_no_worker_may_run_keep_no_others_waiting(desk: Desk) -> None:
    with desk.held_back():
        for number in range(300):
            desk.event(f"t{number}", "globex")
        desk.event("t1", "acme")
    ScriptedWorker(desk, tenants=frozenset({"acme"}), slots=1).heartbeat()
    assert [lease.tenant_id for lease in desk.leases()] == ["acme"]


def test_a_tenants_own_worker_and_that_of_all_share_its_jobs(desk: Desk) -> None:
    own = ScriptedWorker(desk, "own/b1", tenants=frozenset({"acme"}), slots=2)
    everybodys = ScriptedWorker(desk, "all/b1", slots=1)
    own.heartbeat()
    everybodys.heartbeat()
    with desk.held_back():
        for number in range(4):
            desk.event(f"t{number}", "acme")
    assert sorted(to for to, _ in desk.leased()) == ["all/b1", "own/b1", "own/b1"]
    desk.event("g1", "globex")
    everybodys.end(everybodys.leases()[0], "succeeded", free=2)
    desk.driver.advance(0.2)
    assert {lease.tenant_id for lease in everybodys.leases()} == {"acme", "globex"}


def test_no_credits_are_asked_of_a_worker_that_may_not_run_what_waits(desk: Desk) -> None:
    ScriptedWorker(desk, tenants=frozenset({"acme"})).heartbeat(free=0)
    desk.event("t1", "globex")
    desk.driver.advance(3)
    assert desk.asked() == []
    desk.event("t1", "acme")
    desk.driver.advance(0.5)
    assert desk.asked() == ["w1/b1"]


def test_reports_of_an_earlier_release_are_applied_and_what_it_asks_is_not(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    reply = worker.claim(lease)
    desk.logged(Claim("clm", lease.run_id, "a/b", b"", 0), lease.job_id, lease.epoch)
    desk.logged(Heartbeat(()))
    assert (len(desk.replies()), len(desk.ledger())) == (1, 1)
    told = Outcome(reply.claim_id, lease.run_id, "email:send/reply", "done", "1", None)
    desk.logged(told, lease.job_id, lease.epoch)
    assert desk.ledger()[-1].status == "done"
    ended = Ended(lease.run_id, "succeeded", "1", None, None, None)
    desk.logged(ended, lease.job_id, lease.epoch)
    assert (desk.job(lease.job_id).status, desk.dead_letters()) == ("succeeded", [])
