"""Which of its workers a dispatcher leases to, and how many leases each of them gets."""

from __future__ import annotations

import pytest
from support.counted_work import instructions
from support.dispatching import Desk, ScriptedWorker

from streams.serde.records import Lease
from streams.topology.limits import Limit
from streams.topology.model import JobType


@pytest.fixture
def desk() -> Desk:
    return Desk()


def submit(desk: Desk, jobs: int, type_: str = "draft_reply") -> None:
    """Submit jobs of one tenant."""
    start = len(desk.driver.output("jobs"))
    with desk.held_back():
        for number in range(jobs):
            desk.submit(f"job_{start + number:04}", type_)


def holders(desk: Desk) -> list[str]:
    """The workers that were leased to, in order."""
    return [worker_id for worker_id, _ in desk.leased()]


class Reader(ScriptedWorker):
    """A worker that says by itself how many leases it has read."""

    received = 0


def test_a_lease_on_its_way_takes_one_slot_until_its_worker_counts_it(desk: Desk) -> None:
    worker = Reader(desk)
    worker.heartbeat(free=3)
    submit(desk, 2)
    worker.heartbeat(free=3)
    submit(desk, 9)
    assert len(desk.leases()) == 3, "it had read neither of the two when it reported 3"
    worker.received = 1
    worker.heartbeat(free=2)
    assert len(desk.leases()) == 3
    worker.received = 3
    worker.heartbeat(free=1)
    assert len(desk.leases()) == 4, "it has read all three, and one has ended"


def test_a_worker_that_reports_fewer_slots_than_are_on_their_way_is_not_leased_to(
    desk: Desk,
) -> None:
    worker = Reader(desk)
    worker.heartbeat(free=1)
    submit(desk, 1)
    worker.heartbeat(free=0)
    worker.received = 1
    worker.heartbeat(free=1)
    submit(desk, 2)
    assert len(desk.leases()) == 2


def test_the_worker_with_most_credits_that_handles_the_type_gets_the_job(desk: Desk) -> None:
    ScriptedWorker(desk, "a/1", slots=2).heartbeat()
    ScriptedWorker(desk, "b/1", slots=3, types=("draft_reply",)).heartbeat()
    submit(desk, 3)
    assert holders(desk) in (["b/1", "a/1", "b/1"], ["b/1", "b/1", "a/1"])
    submit(desk, 1, "refund")
    assert holders(desk)[3] == "a/1"


def test_a_worker_whose_connection_is_broken_gets_nothing_until_it_is_back(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    running = desk.lease(desk.event("t1"))
    worker.lose_connection()
    waiting = desk.event("t2")
    desk.driver.advance(5)
    assert holders(desk) == ["w1/b1"]
    worker.heartbeat(running)
    assert holders(desk) == ["w1/b1", "w1/b1"]
    assert (desk.lease(waiting).epoch, desk.job(running.job_id).epoch) == (1, 1)


def test_a_new_connection_counts_its_leases_from_its_beginning(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=2)
    worker.heartbeat()
    submit(desk, 5)
    first = desk.leases()
    worker.lose_connection()
    worker.heartbeat(*first, free=0)
    assert len(desk.leases()) == 2, "its slots are taken by leases that came before"
    worker.end(first[0], "succeeded", free=1)
    assert len(desk.leases()) == 3


def test_what_a_worker_handles_counts_for_a_term_after_its_connection_broke(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    worker.lose_connection()
    submit(desk, 1)
    desk.driver.advance(29)
    assert {held.reason for held in desk.held().values()} == {"no_slot"}
    desk.driver.advance(15)
    assert {held.reason for held in desk.held().values()} == {"no_worker"}


def test_what_a_worker_handles_that_ended_in_order_does_not_count(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    worker.leave()
    submit(desk, 1)
    desk.driver.advance(15)
    assert {held.reason for held in desk.held().values()} == {"no_worker"}


def test_a_worker_that_drains_gets_nothing_more(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    worker.beat(5, draining=True)
    submit(desk, 1)
    desk.driver.advance(2)
    assert (desk.leases(), desk.asked()) == ([], [])


def test_after_a_takeover_a_heartbeat_renews_the_leases_that_it_lists(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    desk.driver.restart("dispatcher")
    for _ in range(8):
        worker.heartbeat(lease)
        desk.driver.advance(5)
    assert (desk.job(lease.job_id).status, desk.lease(lease.job_id)) == ("running", lease)


def test_after_a_takeover_a_process_that_holds_leases_counts_as_heard(desk: Desk) -> None:
    ScriptedWorker(desk, "w1/b2").heartbeat()
    first = desk.lease(desk.event("t1"))
    desk.driver.restart("dispatcher")
    desk.driver.advance(0.2)
    earlier = ScriptedWorker(desk, "w1/b1")
    earlier.heartbeat()
    assert desk.lease(first.job_id) == first, "the one that holds it may be alive"
    desk.driver.advance(13)
    earlier.heartbeat()
    again: Lease = desk.lease(first.job_id)
    assert (desk.taker(again.job_id), again.epoch) == ("w1/b1", 2)


def test_each_worker_without_credits_is_asked_at_most_once_a_second(desk: Desk) -> None:
    names = [f"w{number}/1" for number in range(10)]
    for name in names:
        ScriptedWorker(desk, name, types=("draft_reply",)).heartbeat(free=0)
    ScriptedWorker(desk, "rich/1", types=("mail",)).heartbeat(free=1)
    ScriptedWorker(desk, "other/1", types=("mail",)).heartbeat(free=0)
    submit(desk, 4)
    desk.driver.advance(0.9)
    assert sorted(desk.asked()) == names
    desk.driver.advance(1)
    assert sorted(desk.asked()) == sorted(names * 2)


def test_workers_that_cannot_help_do_not_hide_one_that_can(desk: Desk) -> None:
    for number in range(200):
        ScriptedWorker(desk, f"w{number}/1", types=("mail",)).heartbeat(free=0)
    ScriptedWorker(desk, "able/1").heartbeat(free=0)
    submit(desk, 1)
    desk.driver.advance(30)
    assert set(desk.asked()) == {"able/1"}


def with_gpu(desk: Desk) -> tuple[ScriptedWorker, ScriptedWorker]:
    """A worker of the default pool, and one of another pool that renders."""
    types = {"render": JobType("render", pool="gpu")}
    desk.deploy(pools=("default", "gpu"), job_types=types)
    desk.driver.advance(0.2)
    renders = ScriptedWorker(desk, "w2/b1", types=("render",), pool="gpu")
    return ScriptedWorker(desk), renders


def test_a_disabled_tenants_jobs_wait_in_every_pool(desk: Desk) -> None:
    workers = with_gpu(desk)
    submit(desk, 1)
    submit(desk, 1, "render")
    desk.tenant(disabled=True)
    for worker in workers:
        worker.heartbeat()
    assert desk.leases() == []
    desk.tenant()
    assert holders(desk) == ["w1/b1", "w2/b1"]


def test_a_type_at_its_cap_asks_for_no_credits_until_a_run_ends() -> None:
    desk = Desk(Limit("drafts", "job_type", "draft_reply", 1))
    worker = ScriptedWorker(desk)
    worker.heartbeat(free=1)
    submit(desk, 2)
    worker.heartbeat(desk.leases()[0], free=0)
    desk.driver.advance(3)
    assert desk.asked() == []
    worker.end(desk.leases()[0], "succeeded", free=0)
    desk.driver.advance(3)
    assert desk.asked() == ["w1/b1"] * 3


def test_that_a_worker_went_on_without_a_run_is_known_after_an_abort_as_well(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.heartbeat(desk.lease(job_id))
    worker.heartbeat()
    with desk.held_back():
        desk.cancel(job_id, 2)  # of the next incarnation: it waits beside the job
        desk.abort()
    desk.driver.advance(31)
    assert "went on without the run" in (desk.job(job_id).last_error or "")


@pytest.mark.parametrize("disabled", [True, False])
def test_a_step_costs_the_same_whatever_number_of_tenants_there_is(disabled: bool) -> None:
    """Of those that are disabled and have no job, and of those whose jobs wait for a worker."""

    def cost(tenants: int) -> int:
        desk = Desk(Limit("each", "tenant", "*", 1))
        with desk.held_back():
            for number in range(tenants):
                if disabled:
                    desk.tenant(f"tenant{number}", disabled=True)
                else:
                    desk.event(f"a{number}", f"tenant{number}")
                    desk.event(f"b{number}", f"tenant{number}")
            desk.event("t1")
        desk.driver.advance(30)
        return instructions(lambda: desk.driver.advance(2))

    assert cost(10) == cost(500)
