"""Where the dispatcher's parts meet: places, credits, terms and what is kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.keys import join
from streams.serde.records import (
    CommandBody,
    Declined,
    Ended,
    Handler,
    Heartbeat,
    HeldLease,
    Lease,
)
from streams.topology.model import JobType, Topic

DAY_MS = 86_400_000


def with_gpu(desk: Desk) -> None:
    gpu = Topic("jobs.work.gpu", 16, retention_ms=DAY_MS)
    types = {"draft_reply": JobType("draft_reply", "gpu")}
    topics = {**desk.topology.topics, gpu.name: gpu}
    desk.deploy(topics=topics, pools=("default", "gpu"), job_types=types)
    desk.driver.advance(0.5)


def test_a_run_goes_on_to_its_end_though_its_pool_is_declared_no_more() -> None:
    desk = Desk()
    with_gpu(desk)
    worker = ScriptedWorker(desk, pool="gpu")
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.heartbeat(lease)
    desk.deploy(pools=("default",), job_types={})
    ScriptedWorker(desk, "w2/b1").heartbeat()
    worker.stay(90, lease)
    assert (desk.job(job_id).status, desk.job(job_id).epoch) == ("running", lease.epoch)
    assert "no_pool" in {reply.kind for reply in desk.replies()}
    worker.end(lease, "succeeded")
    assert desk.job(job_id).status == "succeeded"


def announce(
    worker: ScriptedWorker, *holding: Lease, partition: int, free: int, received: int
) -> None:
    held = tuple(HeldLease(lease.job_id, lease.epoch, False) for lease in holding)
    body = Heartbeat(
        worker.name,
        "default",
        partition,
        free,
        held,
        worker.handlers,
        received=received,
        leaving=False,
    )
    worker.desk.command(body)


REPORTS: dict[str, Callable[[int, int], CommandBody]] = {
    "heartbeat": lambda free, received: Heartbeat(
        "w1/b1",
        "default",
        3,
        free,
        (),
        (Handler("draft_reply", 3, (), 300),),
        received=received,
        leaving=False,
    ),
    "ended": lambda free, received: Ended(
        "w1/b1", "run_x", free, "succeeded", None, None, None, received, traceback=None
    ),
    "declined": lambda free, received: Declined("w1/b1", "full", free, "no", received),
}


@pytest.mark.parametrize(("free", "received"), [(1, 2**63 - 1), (1, 2**40 + 1), (1, -1), (-1, 1)])
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_number_of_leases_that_no_worker_can_have_is_a_dead_letter(
    report: Callable[[int, int], CommandBody], free: int, received: int
) -> None:
    """The numbers of leases go on from it; one of more than 64 bits ended the stage."""
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat(free=0)
    desk.command(report(free, received), "job_x", 1)
    job_id = desk.event("t1")
    worker.heartbeat(free=1)
    assert [letter.reason for letter in desk.dead_letters()] == ["bad_credits"]
    assert desk.lease(job_id).number == 1


def test_leases_that_were_never_read_cost_no_credit_though_later_ones_were() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    announce(worker, partition=3, free=3, received=0)
    for number in range(3):
        desk.event(f"lost{number}")
    announce(worker, partition=7, free=7, received=0)
    for number in range(4):
        desk.event(f"read{number}")
    read = desk.leases()[3:]
    for _ in range(8):
        announce(worker, *read, partition=7, free=0, received=4)
        desk.driver.advance(5)
    announce(worker, *read, partition=7, free=3, received=4)
    assert len(desk.leases()) == 10, "what it will never read is leased to it again"


def test_a_job_that_ends_and_comes_again_in_one_batch_leaves_nothing_behind() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.step(lease, "looked", "1")
    worker.stay(10, lease)
    again_at = desk.driver.now + desk.topology.window_ms
    with desk.held_back():
        worker.end(lease, "succeeded", free=0)
        desk.event("t1", at=again_at)
    assert desk.job(job_id).incarnation == 2
    announce(worker, partition=3, free=0, received=2)
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 1)
    desk.driver.advance(1)
    checkpoints = desk.driver.run_of("dispatcher").tasks[0].stores["checkpoints"]
    prefix = join(job_id, "1")
    assert [key for key, _ in checkpoints.range(prefix, prefix + b"\xff")] == []


def test_leases_that_were_never_read_cost_no_credit_after_an_abort_either() -> None:
    """A worker was sent more than it takes: an aborted end gave the same credits back twice."""
    desk = Desk()
    worker = ScriptedWorker(desk)
    announce(worker, partition=3, free=3, received=0)
    for number in range(3):
        desk.event(f"lost{number}")
    announce(worker, partition=7, free=7, received=0)
    for number in range(4):
        desk.event(f"read{number}")
    read = desk.leases()[3:]
    for _ in range(5):
        announce(worker, *read, partition=7, free=0, received=4)
        desk.driver.advance(5)
    announce(worker, *read, partition=7, free=6, received=4)
    for number in range(8):
        desk.event(f"on_its_way{number}")
    assert len(desk.leases()) == 10
    desk.driver.advance(4.9)
    desk.driver._clock.ms += 200
    desk.abort()
    desk.driver.advance(0.2)
    announce(worker, *read, partition=7, free=6, received=4)
    assert len(desk.leases()) == 13
