"""Commands about a job: cancels, timers, replays, and those that nobody understands."""

from __future__ import annotations

import dataclasses

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.dispatcher.checkpoints import steps_of
from streams.serde.records import Checkpoint, Ended, StepResult, Wake


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def test_a_worker_does_not_say_which_event_ended_a_wait(desk: Desk, worker: ScriptedWorker) -> None:
    """It would be handed the body of that event, which may be another job's."""
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    forged = StepResult("paid", "event", value='{"payload_ref": {}}')
    desk.command(Checkpoint(lease.run_id, forged), lease.job_id, lease.epoch)
    assert [(r.kind, "forged_result" in r.message) for r in desk.replies()] == [("refused", True)]
    checkpoints = desk.driver.store("dispatcher", "checkpoints")
    assert steps_of(checkpoints, desk.job(lease.job_id)) == ()
    worker.end(lease, "succeeded", result="1")
    assert desk.job(lease.job_id).status == "succeeded"


@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_a_waiting_job_is_cancelled_at_once(desk: Desk, status: str) -> None:
    run_at = desk.driver.now + 60_000 if status == "scheduled" else None
    desk.submit("job_x", run_at=run_at)
    assert desk.job("job_x").status == status
    desk.cancel("job_x")
    ScriptedWorker(desk).heartbeat()
    desk.driver.advance(70)
    assert (desk.job("job_x").status, desk.leases()) == ("cancelled", [])


def test_a_running_job_is_told_and_ends_cancelled(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.cancel(job_id)
    ((to, reply),) = desk.all_replies()
    assert (reply.kind, reply.job_id, to) == ("cancel", job_id, "w1/b1")
    assert desk.job(job_id).cancel_requested
    assert worker.claim(desk.lease(job_id)).kind == "cancel"
    worker.end(desk.lease(job_id), "retry", error="CancelledError: ")
    assert desk.job(job_id).status == "cancelled"


def test_of_a_cancel_and_the_end_of_a_run_the_first_that_is_read_counts(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    ended_first, cancelled_first = desk.event("t1"), desk.event("t2")
    worker.end(desk.lease(ended_first), "succeeded", result="1")
    desk.cancel(ended_first)
    desk.cancel(cancelled_first)
    worker.end(desk.lease(cancelled_first), "succeeded", result="2")
    jobs = desk.job(ended_first), desk.job(cancelled_first)
    assert [job.status for job in jobs] == ["succeeded", "cancelled"]
    assert [(job.result, job.last_error) for job in jobs] == [
        ("1", None),
        ("2", "Cancelled: not needed"),
    ]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cancel_that_overtakes_its_event_is_kept(
    desk: Desk, worker: ScriptedWorker, restarted: bool
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    fresh = Desk()
    fresh.cancel(job_id)
    if restarted:
        fresh.driver.restart("dispatcher")
    fresh.event("t1")
    ScriptedWorker(fresh).heartbeat()
    assert (fresh.job(job_id).status, fresh.leases()) == ("cancelled", [])


def test_a_delayed_job_starts_at_its_time_and_a_stale_wake_does_nothing(
    desk: Desk, worker: ScriptedWorker
) -> None:
    desk.submit("job_x", run_at=desk.driver.now + 25_000)
    desk.submit("job_x", run_at=desk.driver.now + 1_000)
    desk.driver.advance(24.8)
    worker.heartbeat()
    assert desk.leases() == []
    desk.command(Wake(1, 0, desk.driver.now + 1_000), "job_x")
    assert desk.leases() == [], "a timer that is not this wait's"
    desk.driver.advance(0.5)
    assert desk.lease("job_x").attempt == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_end_that_the_dispatcher_does_not_know_is_refused(
    desk: Desk, worker: ScriptedWorker, is_cancelled: bool
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    if is_cancelled:
        desk.cancel(job_id)
    end = Ended(desk.lease(job_id).run_id, "parked", None, None, None, None)
    desk.logged(dataclasses.replace(end, status="asleep"), job_id, 1)  # type: ignore[arg-type]
    assert [letter.reason for letter in desk.dead_letters()] == ["not_supported"]
    assert desk.job(job_id).status == "running"


def test_a_timer_of_an_earlier_incarnation_wakes_nobody(desk: Desk, worker: ScriptedWorker) -> None:
    day = 86_400_000
    desk.submit("job_x", run_at=desk.driver.now + 10 * day)
    desk.cancel("job_x")
    desk.driver.advance(8 * 86_400)
    desk.submit("job_x", run_at=desk.driver.now + 12 * day)
    assert desk.job("job_x").incarnation == 2
    desk.driver.advance(3 * 86_400)
    assert desk.job("job_x").status == "scheduled"
    desk.driver.advance(10 * 86_400)
    assert desk.job("job_x").status == "pending"


def test_an_absurd_wait_is_bounded(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", after=1e15, error="RetryAfter: never")
    year = 366 * 86_400_000
    assert desk.job(job_id).next_retry_at == desk.driver.now + year


def test_the_timeout_that_was_asked_for_wins_and_a_changed_policy_holds_for_the_next_run(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    desk.submit("job_asked", timeout_seconds=7)
    job_id = desk.event("t1")
    assert desk.lease("job_asked").timeout_seconds == 7
    assert desk.lease(job_id).timeout_seconds == 300
    worker.handlers = tuple(dataclasses.replace(h, timeout_seconds=60) for h in worker.handlers)
    worker.end(desk.lease(job_id), "released", free=0)
    worker.end(desk.lease("job_asked"), "released", free=0)
    worker.heartbeat()
    assert desk.lease(job_id).timeout_seconds == 60
    assert desk.lease("job_asked").timeout_seconds == 7


@pytest.mark.parametrize("fresh_scope", [False, True])
def test_a_replay_is_a_new_job_with_its_reason(
    desk: Desk, worker: ScriptedWorker, fresh_scope: bool
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "failed", error="PermanentError: x")
    desk.replay("job_new", job_id, fresh_scope=fresh_scope)
    desk.replay("job_new", job_id, fresh_scope=fresh_scope)
    new, old = desk.lease("job_new"), desk.leases()[0]
    assert (new.attempt, new.event) == (1, old.event)
    assert (new.scope != old.scope) is fresh_scope
    assert len(desk.leases()) == 2
    job = desk.job("job_new")
    assert (job.replay_of, job.replay_note) == (job_id, "vendor mended")


def test_a_replay_of_an_unknown_or_another_tenants_job_is_a_dead_letter(desk: Desk) -> None:
    desk.replay("job_new", "job_gone")
    desk.replay("job_new", desk.event("t1", "globex"))
    assert [letter.reason for letter in desk.dead_letters()] == ["replay_of_unknown"] * 2
    desk.replay("job_new", desk.event("t2"))
    assert desk.dead_letters()[-1].reason == "not_replayable", "it still runs, or will"
    assert [record.key for record in desk.driver.output("jobs")] != [b"job_new"]


def test_an_undecodable_command_is_a_dead_letter_and_the_stage_moves_on(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    desk.driver.pipe("jobs.commands", b"acme", b"junk")
    job_id = desk.event("t1")
    (letter,) = desk.dead_letters()
    assert (letter.reason, letter.topic, letter.value) == ("undecodable", "jobs.commands", b"junk")
    assert desk.lease(job_id).attempt == 1


def test_a_poison_command_in_a_batch_costs_the_others_nothing(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    with desk.held_back():
        ScriptedWorker(desk, "w1/b2").heartbeat()
        desk.replay("job_new", "job_gone")
    assert desk.taker(job_id) == "w1/b2", "the lost lease was not lost on the way"
    assert [letter.reason for letter in desk.dead_letters()] == ["replay_of_unknown"]


def test_a_cancel_of_another_tenant_ends_nothing(desk: Desk) -> None:
    job_id = desk.event("t1", "globex")
    desk.cancel(job_id)
    assert desk.job(job_id).status == "pending"
    assert [letter.reason for letter in desk.dead_letters()] == ["cancel_of_unknown"]
