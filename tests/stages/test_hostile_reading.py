"""Where the dispatcher's parts meet: places, credits, terms and what is kept."""

from __future__ import annotations

from support.dispatching import Desk, ScriptedWorker

from streams.serde.keys import join
from streams.serde.records import (
    Ended,
)
from streams.topology.model import JobType

DAY_MS = 86_400_000


def with_gpu(desk: Desk) -> None:
    types = {"draft_reply": JobType("draft_reply", "gpu")}
    desk.deploy(pools=("default", "gpu"), job_types=types)
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
    worker.end(lease, "succeeded")
    assert desk.job(job_id).status == "succeeded"


def test_a_job_that_ends_and_comes_again_in_one_batch_leaves_nothing_behind() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.step(lease, "looked", "1")
    worker.stay(10, lease)
    again_at = desk.driver.now + desk.topology.window_ms
    ended = Ended(lease.run_id, "succeeded", None, None, None, None)
    with desk.held_back():
        desk.logged(ended, job_id, lease.epoch)
        desk.event("t1", at=again_at)
    assert desk.job(job_id).incarnation == 2
    worker.heartbeat(free=0)
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 1)
    desk.driver.advance(1)
    checkpoints = desk.driver.run_of("dispatcher").tasks[0].stores["checkpoints"]
    prefix = join(job_id, "1")
    assert [key for key, _ in checkpoints.range(prefix, prefix + b"\xff")] == []
