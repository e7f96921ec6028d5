"""A job's record says when its newest run began, and its history when each kept one did."""

from __future__ import annotations

from typing import Any

from support.dispatching import Desk, ScriptedWorker

from streams.serde.records import Job


def ran(desk: Desk, worker: ScriptedWorker, job_id: str, ended: str, **fields: Any) -> Job:
    """Let a worker hold a job's lease for seven seconds, then end the run."""
    worker.heartbeat()
    lease = desk.lease(job_id)
    for _ in range(7):
        desk.driver.advance(1)
        worker.heartbeat(lease)
    worker.end(lease, ended, **fields)
    return desk.job(job_id)


def test_runs_have_their_beginnings_and_ends() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    job_id = desk.event("t1")
    assert desk.job(job_id).began_at is None, "it waits"
    failed = ran(desk, worker, job_id, "retry", error="KeyError: 'x'")
    (run,) = failed.history
    assert run.began_at is not None
    assert 7_000 <= run.at - run.began_at < 9_000
    assert failed.began_at == run.began_at
    desk.driver.advance(60)
    done = ran(desk, worker, job_id, "succeeded", result="1")
    assert done.began_at is not None
    assert done.history[0].began_at == run.began_at
    assert done.began_at > run.at
    assert 7_000 <= done.updated_at - done.began_at < 9_000


def test_a_run_that_is_lost_keeps_its_beginning() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk, "w1/b0")
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.heartbeat(desk.lease(job_id))
    began = desk.job(job_id).began_at
    desk.driver.advance(60)
    (run,) = desk.job(job_id).history
    assert (run.kind, run.began_at) == ("lost", began)
