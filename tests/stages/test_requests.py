"""Cancels, timers, submissions and heartbeats: each means one life of a job, and is answered."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.codec import COMMAND, SCHEDULE
from streams.serde.ids import new_id
from streams.serde.records import Cancel, Command, Wake

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def test_a_submission_read_again_late_is_judged_by_the_time_of_its_record(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    taken_at = desk.driver.now
    desk.submit("job_x", at=taken_at)
    worker.end(desk.lease("job_x"), "succeeded")
    desk.driver.advance(7.5 * 86_400)
    worker.heartbeat()
    desk.submit("job_x", at=taken_at)
    assert len(desk.leases()) == 1, "the same record is the same submission, whenever it is read"
    assert desk.job("job_x").event_time == taken_at
    desk.submit("job_x")
    assert desk.lease("job_x").incarnation == 2


def test_a_request_read_again_after_its_job_was_purged_makes_none(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    taken_at = desk.driver.now
    job_id = desk.event("t1", at=taken_at)
    worker.end(desk.lease(job_id), "succeeded")
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 3_600)
    assert desk.driver.output("jobs")[-1].value is None
    worker.heartbeat()
    assert desk.event("t1", at=taken_at) == job_id
    assert len(desk.leases()) == 1, "its scope would be the one of old"
    desk.event("t1")
    assert desk.lease(job_id).scope != desk.leases()[0].scope


def test_a_delay_counts_from_when_the_broker_took_the_submission(desk: Desk) -> None:
    taken_at = desk.driver.now
    desk.driver.advance(60)
    desk.submit("job_x", delay_ms=100_000, at=taken_at)
    job = desk.job("job_x")
    assert (job.status, job.scheduled_at) == ("scheduled", taken_at + 100_000)
    desk.submit("job_y", delay_ms=50_000, at=taken_at)
    assert desk.job("job_y").status == "pending", "its time came while it was waiting to be read"


def test_an_absurd_delay_costs_nobody_anything(desk: Desk) -> None:
    desk.submit("job_x", delay_ms=2**63 - 1)
    assert desk.job("job_x").scheduled_at == desk.driver.now + 366 * DAY_MS


def test_a_cancel_of_an_earlier_incarnation_is_stale(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    start = desk.driver.now
    job_id = desk.event("t1", at=start)
    worker.end(desk.lease(job_id), "succeeded")
    desk.event("t1", at=start + 8 * DAY_MS)
    assert desk.job(job_id).incarnation == 2
    desk.cancel(job_id, 1)
    assert not desk.job(job_id).cancel_requested
    desk.cancel(job_id, 2)
    assert desk.job(job_id).cancel_requested


def test_a_cancel_of_a_later_incarnation_waits_for_it(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    start = desk.driver.now
    job_id = desk.event("t1", at=start)
    desk.cancel(job_id, 2)
    assert not desk.job(job_id).cancel_requested
    worker.end(desk.lease(job_id), "succeeded")
    desk.driver.restart("dispatcher")
    desk.event("t1", at=start + 8 * DAY_MS)
    job = desk.job(job_id)
    assert (job.incarnation, job.status, job.cancel_reason) == (2, "cancelled", "not needed")


def test_a_cancel_that_names_no_incarnation_means_the_job_of_its_time(desk: Desk) -> None:
    start = desk.driver.now
    job_id = desk.event("t1", at=start)
    desk.cancel(job_id, at=start - 1)
    assert desk.job(job_id).status == "pending", "it was born after the word that would end it"
    desk.cancel(job_id, at=start)
    assert desk.job(job_id).status == "cancelled"


def test_a_parked_cancel_keeps_the_time_of_its_own_record(desk: Desk) -> None:
    job_id = Desk().event("t1")
    old = Command(new_id("cmd"), "acme", job_id, 0, desk.driver.now + DAY_MS, Cancel("x", None))
    desk.driver.pipe("jobs.commands", b"acme", COMMAND.encode(old), timestamp=desk.driver.now)
    desk.event("t1", at=desk.driver.now + 1)
    assert desk.job(job_id).status == "pending", "the sender's clock says nothing"


def test_a_parked_command_outlives_the_expiry_of_another(desk: Desk) -> None:
    desk.cancel("job_x", 1)
    keep = desk.topology.finished_jobs_ms / 1000
    desk.driver.advance(keep - 60)
    desk.cancel("job_x", 1)
    desk.driver.advance(120)
    desk.submit("job_x")
    assert desk.job("job_x").status == "cancelled"


def test_the_reason_of_a_cancel_is_shown_in_the_end(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.cancel(job_id)
    assert desk.job(job_id).cancel_reason == "not needed"
    desk.command(Cancel("another", "ops"), job_id)
    worker.end(desk.lease(job_id), "cancelled", error="CancelledError: ")
    job = desk.job(job_id)
    assert (job.status, job.last_error) == ("cancelled", "Cancelled: not needed")


def test_the_reason_is_there_when_the_lease_is_lost_meanwhile(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.cancel(job_id)
    desk.driver.advance(31)
    assert desk.job(job_id).last_error == "Cancelled: not needed"


def test_a_timer_of_another_wait_wakes_nobody(desk: Desk, worker: ScriptedWorker) -> None:
    due = desk.driver.now + HOUR_MS
    desk.submit("job_x", run_at=due)
    desk.command(Wake(1, 0, due - 1), "job_x")
    assert desk.job("job_x").status == "scheduled"
    desk.command(Wake(2, 0, due), "job_x")
    desk.command(Wake(1, 1, due), "job_x")
    assert desk.job("job_x").status == "scheduled"
    desk.command(Wake(1, 0, due), "job_x")
    assert desk.job("job_x").status == "pending"


def test_each_timer_says_to_which_time_it_was_set(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", error="TransientError: x")
    (timer,) = (SCHEDULE.decode(record.value) for record in desk.driver.output("schedule"))
    wake = COMMAND.decode(timer.value).body
    assert wake == Wake(1, 1, timer.due_at)
    assert desk.job(job_id).next_retry_at == timer.due_at


def test_a_submission_takes_no_job_of_another_tenant(desk: Desk) -> None:
    job_id = desk.event("t1", "globex")
    desk.submit(job_id)
    assert [letter.reason for letter in desk.dead_letters()] == ["id_taken"]
    assert desk.job(job_id).tenant_id == "globex"


def test_a_priority_that_is_not_declared_any_more_is_the_default(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    desk.submit("job_x", priority="gone")
    assert desk.job("job_x").priority == "webhook"
    assert (desk.dead_letters(), desk.lease("job_x").attempt) == ([], 1)


@pytest.mark.parametrize("restarted", [False, True])
def test_each_heartbeat_that_lists_a_cancelled_lease_is_answered(
    desk: Desk, worker: ScriptedWorker, restarted: bool
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    desk.cancel(job_id)
    if restarted:
        desk.driver.restart("dispatcher")
    for heard in range(1, 3):
        worker.heartbeat(lease)
        told = [each for each in desk.all_replies() if each[1].kind == "cancel"]
        assert len(told) == 1 + heard
        to, reply = told[-1]
        assert (to, reply.job_id, reply.epoch) == ("w1/b1", job_id, 1)
        assert reply.message == "not needed"


def test_a_lease_that_lives_is_not_answered(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    worker.heartbeat(lease)
    desk.driver.restart("dispatcher")
    worker.heartbeat(lease)
    assert desk.replies() == []


def test_who_lists_a_superseded_lease_is_told_that_it_lost_it(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    old = desk.lease(job_id)
    desk.driver.advance(31)
    other = ScriptedWorker(desk, "w2/b1")
    other.heartbeat()
    desk.driver.advance(31)
    other.heartbeat()
    assert desk.taker(job_id) == "w2/b1"
    worker.heartbeat(old)
    ((to, reply),) = [each for each in desk.all_replies() if each[1].kind == "lost"]
    assert (to, reply.job_id, reply.epoch) == ("w1/b1", job_id, 1)
    assert worker.claim(old).kind == "lost"


def test_who_lists_a_lease_of_a_job_that_ended_or_is_unknown_is_told(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    worker.end(lease, "succeeded")
    worker.heartbeat(lease)
    assert [(r.kind, r.job_id) for r in desk.replies()] == [("lost", lease.job_id)]
    fresh = Desk()
    ScriptedWorker(fresh).heartbeat(lease)
    assert [r.kind for r in fresh.replies()] == ["lost"]


def test_the_earlier_boot_of_an_instance_is_told_too(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    ScriptedWorker(desk, "w1/b2").heartbeat()
    worker.heartbeat(lease)
    assert [(r.kind, to, r.epoch) for to, r in desk.all_replies()] == [("lost", "w1/b1", 1)]
