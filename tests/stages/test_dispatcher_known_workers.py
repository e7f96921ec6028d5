"""Which workers a dispatcher knows, and whom it asks."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from support.dispatching import Desk, ScriptedWorker

from streams.serde.records import Lease
from streams.topology.limits import Limit


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_gauges_of_a_partition_that_was_taken_away_are_gone(desk: Desk) -> None:
    desk.driver.advance(0.5)
    name, labels = "tidegate_dispatcher_ready_jobs", {"partition": "0"}
    assert REGISTRY.get_sample_value(name, labels) == 0
    desk.driver.close()
    assert REGISTRY.get_sample_value(name, labels) is None


def jobs(pool: str = "default") -> float | None:
    """The gauge by which workers are scaled."""
    labels = {"partition": "0", "pool": pool}
    return REGISTRY.get_sample_value("tidegate_dispatcher_pool_jobs", labels)


def test_jobs_of_a_pool_are_counted_while_they_wait_and_run_until_the_partition_moves(
    desk: Desk,
) -> None:
    worker = ScriptedWorker(desk)
    waiting, running = desk.event("t1"), desk.event("t2")
    desk.driver.advance(1)
    assert jobs() == 2
    worker.heartbeat(free=1)
    desk.driver.advance(1)
    assert len({job for job in (waiting, running) if desk.job(job).status == "running"}) == 1
    assert jobs() == 2
    desk.driver.close()
    assert jobs() is None


@pytest.mark.parametrize(
    ("limit", "counted"),
    [
        (Limit("per_tenant", "tenant", match="*", concurrency=2), 4),
        (Limit("drafts", "job_type", match="draft_*", concurrency=3), 3),
        (Limit("all", "global", concurrency=1), 1),
        (Limit("subjects", "key", by="tenant_id", concurrency=3), 6),
        (Limit("each", "job_type", per="tenant", concurrency=2), 4),
    ],
)
def test_jobs_that_a_cap_holds_back_need_no_worker(limit: Limit, counted: int) -> None:
    desk = Desk(limit)
    for tenant in ("acme", "bolt"):
        for number in range(5):
            desk.event(f"{tenant}{number}", tenant)
    desk.driver.advance(1)
    assert jobs() == counted
    worker = ScriptedWorker(desk)
    worker.heartbeat(free=10)
    desk.driver.advance(1)
    assert jobs() == counted


def test_jobs_that_run_above_a_lowered_cap_keep_their_workers(desk: Desk) -> None:
    ScriptedWorker(desk).heartbeat(free=3)
    for number in range(5):
        desk.event(f"t{number}")
    desk.event("t5", "bolt")
    desk.deploy(limits=(Limit("per_tenant", "tenant", match="*", concurrency=1),))
    desk.driver.advance(1)
    assert jobs() == 4, "three that run, and one of the other tenant"


def test_jobs_of_a_disabled_tenant_need_no_worker(desk: Desk) -> None:
    desk.tenant(disabled=True)
    desk.event("t1")
    desk.event("t2", "bolt")
    desk.driver.advance(1)
    assert jobs() == 1
    desk.tenant()
    desk.driver.advance(1)
    assert jobs() == 2


def test_credits_are_asked_of_workers_that_have_none_where_jobs_wait(desk: Desk) -> None:
    able, other = ScriptedWorker(desk), ScriptedWorker(desk, "w2/b1", types=("refund",))
    able.heartbeat(free=0)
    other.heartbeat(free=0)
    desk.driver.advance(1)
    assert desk.asked() == []
    job_id = desk.event("t1")
    desk.driver.advance(2.5)
    assert desk.asked() == ["w1/b1"] * 3
    able.heartbeat(free=1)
    assert desk.taker(job_id) == "w1/b1"
    desk.driver.advance(2.5)
    assert len(desk.asked()) == 3


def test_a_restarted_worker_whose_clock_is_behind_is_heard_once_its_predecessor_is_silent(
    desk: Desk,
) -> None:
    before = ScriptedWorker(desk, "w1/b2")
    before.heartbeat()
    lease = desk.lease(desk.event("t1"))
    after = ScriptedWorker(desk, "w1/b1")
    for _ in range(2):
        after.heartbeat()
        desk.driver.advance(5)
    assert len(desk.leases()) == 1
    desk.driver.advance(3)
    after.heartbeat()
    again: Lease = desk.lease(lease.job_id)
    assert (desk.taker(again.job_id), again.epoch) == ("w1/b1", 2)


def test_a_heartbeat_of_a_worker_that_is_not_heard_yet_extends_its_leases(desk: Desk) -> None:
    """It is acknowledged, so its worker counts on it."""
    ScriptedWorker(desk, "w1/b2").heartbeat()
    after = ScriptedWorker(desk, "w1/b1")
    after.heartbeat()
    job_id = desk.event("t1")
    desk.driver.advance(10)
    after.heartbeat(desk.lease(job_id))
    desk.driver.advance(29)
    assert desk.job(job_id).epoch == 1
    assert desk.job(job_id).status == "running"
    desk.driver.advance(1.5)
    assert desk.job(job_id).status == "scheduled"


def test_a_worker_whose_clock_is_behind_is_not_heard_while_its_predecessor_is_connected(
    desk: Desk,
) -> None:
    before = ScriptedWorker(desk, "w1/b2")
    before.heartbeat()
    lease = desk.lease(desk.event("t1"))
    desk.driver.advance(20)
    ScriptedWorker(desk, "w1/b1").lists()
    assert desk.lease(lease.job_id) == lease
