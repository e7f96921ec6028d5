"""The dispatcher: one job an event, its attempts, dead letters, purges."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.link.messages import Leased


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def test_an_event_becomes_one_job_leased_over_the_link(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    assert desk.said() == [("w1/b1", Leased(0, 2, lease))], "it names the newest beat"
    assert lease.attempt == 1
    assert lease.event is not None
    assert lease.payload_ref is not None
    assert (lease.event.dedup_key, lease.payload_ref.offsets) == ("t1", (7,))
    worker.end(lease, "succeeded", result='{"ok":1}')
    job = desk.job(job_id)
    assert job.callback_url == f"https://{job.tenant_id}.example/done"
    assert (job.status, job.result, job.attempts, job.worker_id) == (
        "succeeded",
        '{"ok":1}',
        1,
        None,
    )


def test_an_event_that_no_route_matches_has_no_job(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    desk.event("t1", type_="user.created")
    assert desk.driver.output("jobs") == []


def test_a_twin_within_the_window_changes_nothing_past_it_it_is_the_next_incarnation(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    start = desk.driver.now
    job_id = desk.event("t1", at=start)
    desk.event("t1", at=start + desk.topology.window_ms * 3)
    assert len(desk.leases()) == 1, "a live job keeps twins out even past the window"
    worker.end(desk.lease(job_id), "succeeded")
    desk.event("t1", at=start + desk.topology.window_ms - 1)
    assert len(desk.leases()) == 1
    desk.event("t1", at=start + desk.topology.window_ms)
    second = desk.lease(job_id)
    assert (second.incarnation, second.attempt) == (2, 1)
    assert second.epoch > desk.leases()[0].epoch, "no two leases of one id are alike"
    assert second.scope != desk.leases()[0].scope


def test_colliding_ids_of_two_tenants_are_two_jobs(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    ours, theirs = desk.event("t1", "acme"), desk.event("t1", "globex")
    assert ours != theirs
    assert {desk.lease(j).tenant_id for j in (ours, theirs)} == {"acme", "globex"}


def test_a_failed_attempt_waits_out_its_backoff_and_the_last_one_is_dead(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    for attempt, backoff in ((1, 10), (2, 30)):
        worker.end(desk.lease(job_id), "retry", error="TransientError: 503")
        job = desk.job(job_id)
        wait = (job.next_retry_at or 0) - desk.driver.now
        assert (job.status, job.attempts) == ("scheduled", attempt)
        assert backoff * 1000 <= wait <= backoff * 1250
        desk.driver.advance(wait / 1000 - 0.2)
        worker.heartbeat()
        assert desk.job(job_id).status == "scheduled"
        desk.driver.advance(0.5)
        assert desk.lease(job_id).attempt == attempt + 1
    worker.end(desk.lease(job_id), "retry", error="TransientError: 503")
    assert (desk.job(job_id).status, desk.job(job_id).attempts) == ("dead", 3)
    (letter,) = desk.dead_letters()
    assert (letter.id, letter.reason, letter.detail) == (
        job_id,
        "attempts_exhausted",
        "TransientError: 503",
    )


def test_retry_after_wins_over_the_backoff(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", after=77, error="RetryAfter: later")
    wait = (desk.job(job_id).next_retry_at or 0) - desk.driver.now
    assert 77_000 <= wait <= 77_000 * 1.1


def test_a_permanent_error_is_failed_and_in_the_dead_letters(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "failed", error="PermanentError: no such ticket")
    assert desk.job(job_id).status == "failed"
    assert [letter.reason for letter in desk.dead_letters()] == ["permanent_error"]


def test_a_job_that_ended_as_it_began_is_purged_too(desk: Desk) -> None:
    before = list(desk.driver.store("dispatcher", "jobs").range(b"", b"\xff"))
    desk.cancel(Desk().event("t1"))
    job_id = desk.event("t1")
    assert desk.job(job_id).status == "cancelled"
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)
    assert list(desk.driver.store("dispatcher", "jobs").range(b"", b"\xff")) == before


def test_finished_jobs_are_purged_with_steps_and_effects(
    desk: Desk, worker: ScriptedWorker
) -> None:
    stores = [desk.driver.store("dispatcher", n) for n in ("jobs", "checkpoints", "ledger")]
    before = [list(store.range(b"", b"\xff")) for store in stores]
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.step(lease, "draft", "1")
    worker.outcome(lease, worker.claim(lease), "done", "1")
    worker.end(lease, "succeeded")
    now = [list(store.range(b"", b"\xff")) for store in stores]
    assert all(len(kept) > len(empty) for kept, empty in zip(now, before, strict=True))
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)
    assert [list(store.range(b"", b"\xff")) for store in stores] == before
    assert desk.driver.output("jobs")[-1].value is None


def test_the_fold_of_the_public_topic_is_the_store(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "succeeded")
    stored = desk.driver.store("dispatcher", "jobs").get(job_id.encode())
    assert stored == desk.driver.output("jobs")[-1].value
