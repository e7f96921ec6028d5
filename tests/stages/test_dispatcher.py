"""The dispatcher: one job an event, leases, retries, cancels, replays, dead letters."""

from __future__ import annotations

import dataclasses

import pytest
from support.dispatching import CLUSTER_KEY, Desk, ScriptedWorker

from streams.errors import PoisonRecord
from streams.serde.lease_mac import open_lease
from streams.serde.records import Claim, Wake
from streams.topology.model import Limit


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def test_an_event_becomes_one_job_leased_to_the_announced_partition(
    desk: Desk, worker: ScriptedWorker
) -> None:
    heartbeat = worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    (record,) = desk.driver.output("jobs.work.default")
    assert record.partition == worker.partition
    assert (lease.worker_id, lease.heartbeat_id, lease.attempt) == ("w1/b1", heartbeat, 1)
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


def test_a_lease_under_another_key_is_not_believed(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    desk.event("t1")
    (record,) = desk.driver.output("jobs.work.default")
    with pytest.raises(PoisonRecord, match="forged_lease"):
        open_lease(record.value, b"x" * 32)
    assert record.value is not None
    tampered = record.value[:40] + b"!" + record.value[41:]
    with pytest.raises(PoisonRecord, match="forged_lease"):
        open_lease(tampered, CLUSTER_KEY)


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


def test_free_slots_are_never_overrun(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=2)
    worker.heartbeat()
    ids = [desk.event(f"t{n}") for n in range(5)]
    assert len(desk.leases()) == 2
    worker.end(desk.lease(ids[0]), "succeeded", free=1)
    assert len(desk.leases()) == 3


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
        job_id, "attempts_exhausted", "TransientError: 503",
    )  # fmt: skip


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


def test_a_lease_is_taken_back_only_after_a_term_without_heartbeats(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    desk.driver.advance(20)
    worker.heartbeat(lease)
    desk.driver.advance(29)
    assert desk.job(job_id).epoch == 1
    other = ScriptedWorker(desk, "w2/b1")
    other.heartbeat()
    desk.driver.advance(1.5)
    assert (desk.job(job_id).status, desk.job(job_id).lost) == ("scheduled", 1)
    other.stay(7)
    again = desk.lease(job_id)
    assert (again.epoch, again.worker_id, again.attempt) == (2, "w2/b1", 1)
    worker.end(lease, "succeeded")
    assert desk.job(job_id).status == "running", "the old run's word no longer counts"


def test_a_run_lost_on_the_only_attempt_is_dead(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.heartbeat(desk.lease(job_id))
    desk.driver.advance(31)
    job = desk.job(job_id)
    assert (job.status, job.end_reason) == ("dead", "worker_lost")
    assert "LeaseExpired" in (job.last_error or "")
    assert [letter.reason for letter in desk.dead_letters()] == ["worker_lost"]


def test_nothing_expires_before_the_commands_up_to_the_deadline_are_read(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.driver.unread.add("jobs.commands")
    desk.driver.advance(33)
    assert desk.job(job_id).status == "running"
    desk.driver.unread.clear()
    desk.driver.advance(1)
    assert desk.job(job_id).status == "pending"


def test_after_a_silent_broker_every_lease_gets_a_fresh_term(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.driver.unread.add("jobs.commands")
    desk.driver.advance(60)
    desk.driver.unread.clear()
    desk.driver.advance(29)
    assert desk.job(job_id).status == "running"
    desk.driver.advance(2)
    assert desk.job(job_id).status == "pending"


def test_a_dispatcher_that_is_behind_still_takes_leases_back(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    alive = ScriptedWorker(desk, "w2/b1")
    for _ in range(5):
        alive.heartbeat(free=0)
        desk.driver.advance(5)
    desk.driver.unread.add("jobs.commands")
    for _ in range(6):
        alive.heartbeat(free=0)
        desk.driver.advance(3)
    desk.driver.unread.clear()
    alive.heartbeat()
    desk.driver.advance(0.5)
    assert desk.lease(job_id).worker_id == "w2/b1"


def test_poison_renews_no_lease(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    for _ in range(4):
        desk.replay("job_new", "job_gone")
        desk.driver.advance(10)
    assert desk.job(job_id).status == "pending"


def test_a_restarted_worker_gives_up_its_predecessors_jobs_at_once(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    ScriptedWorker(desk, "w1/b2", slots=2).heartbeat()
    assert (desk.lease(job_id).epoch, desk.lease(job_id).worker_id) == (2, "w1/b2")
    worker.heartbeat(desk.leases()[0])
    assert len(desk.leases()) == 2, "a late heartbeat of the old boot brings nothing back"
    assert desk.lease(desk.event("t2")).worker_id == "w1/b2"


def test_a_declined_lease_goes_elsewhere_and_costs_no_attempt(desk: Desk) -> None:
    full, other = ScriptedWorker(desk, "w1/b1", slots=5), ScriptedWorker(desk, "w2/b1", slots=1)
    full.heartbeat()
    other.heartbeat()
    job_id = desk.event("t1")
    assert desk.lease(job_id).worker_id == "w1/b1"
    full.decline(desk.lease(job_id), "full")
    again = desk.lease(job_id)
    assert (again.worker_id, again.epoch, again.attempt) == ("w2/b1", 2, 1)


def test_who_never_held_a_lease_cannot_take_it_from_its_holder(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.heartbeat(lease)
    other = ScriptedWorker(desk, "w2/b1")
    other.heartbeat()
    other.decline(lease, "not_mine")
    assert len(desk.leases()) == 1
    unread = desk.lease(desk.event("t2"))
    ScriptedWorker(desk, "w3/b1").decline(unread, "not_mine")
    ScriptedWorker(desk, "w3/b1").decline(unread, "full")
    assert len(desk.leases()) == 2, "its worker may have read it, too, and not said so yet"
    later = unread.worker_id.replace("b1", "b2")
    ScriptedWorker(desk, later).decline(unread, "not_mine")
    worker.heartbeat(lease)
    assert desk.lease(unread.job_id).epoch == 2, "a later boot knows that the earlier one is gone"
    assert desk.job(lease.job_id).epoch == 1


def test_a_lease_that_answers_an_old_heartbeat_waits_for_the_next(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.decline(desk.lease(job_id), "bad_lease")
    assert len(desk.leases()) == 1
    worker.heartbeat()
    assert desk.lease(job_id).epoch == 2


def test_a_cancel_is_not_forgotten_when_the_lease_is_declined(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.cancel(job_id)
    worker.decline(desk.lease(job_id), "full")
    worker.heartbeat()
    assert (desk.job(job_id).status, len(desk.leases())) == ("cancelled", 1)


def test_heartbeats_of_workers_long_gone_get_no_jobs(desk: Desk, worker: ScriptedWorker) -> None:
    desk.driver.unread.add("jobs.commands")
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.driver.advance(1)
    assert desk.leases() == []
    desk.driver.unread.clear()
    desk.driver.advance(0.2)
    assert desk.lease(job_id).attempt == 1


def test_a_released_run_costs_no_attempt(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "released", error="shut down", free=0)
    worker.heartbeat()
    assert (desk.lease(job_id).attempt, desk.lease(job_id).epoch) == (1, 2)


def test_finished_steps_come_back_with_the_next_lease_but_not_a_stale_runs(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    first = desk.lease(job_id)
    worker.step(first, "draft", '"hello"')
    worker.end(first, "retry", after=0, error="TransientError: x")
    worker.step(first, "late", '"no"')
    worker.end(desk.lease(job_id), "retry", after=0, error="TransientError: x")
    assert desk.lease(job_id).checkpoints == {"draft": '"hello"'}


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
    (reply,) = desk.replies()
    assert (reply.kind, reply.job_id, reply.worker_id) == ("cancel", job_id, "w1/b1")
    assert desk.job(job_id).cancel_requested
    assert worker.claim(desk.lease(job_id)).kind == "cancel"
    worker.end(desk.lease(job_id), "retry", error="CancelledError: ")
    assert desk.job(job_id).status == "cancelled"


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
    desk.command(Wake(attempts=7), "job_x")
    assert desk.leases() == [], "a timer that is not this wait's"
    desk.driver.advance(0.5)
    assert desk.lease("job_x").attempt == 1


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
    worker.end(desk.lease(job_id), "retry", after=float("inf"), error="RetryAfter: never")
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


def test_the_caps_of_tenant_and_type_hold(desk: Desk) -> None:
    desk = Desk(Limit("each", "tenant", "*", 2), Limit("refunds", "job_type", "refund", 1))
    worker = ScriptedWorker(desk, slots=50)
    worker.heartbeat()
    ours = [desk.event(f"t{n}") for n in range(4)]
    for n in range(3):
        desk.event(f"r{n}", "globex", type_="ticket.refund")
    assert sorted(lease.tenant_id for lease in desk.leases()) == ["acme", "acme", "globex"]
    worker.end(desk.lease(ours[0]), "succeeded", free=50)
    assert [lease.tenant_id for lease in desk.leases()].count("acme") == 3
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    desk.driver.advance(0.2)
    assert len(desk.leases()) == 4, "caps are counted anew from the living leases"


def test_a_job_waiting_for_a_slot_survives_restart_and_crash(
    desk: Desk, worker: ScriptedWorker
) -> None:
    job_id = desk.event("t1")
    desk.driver.restart("dispatcher")
    desk.driver.crash("dispatcher", "before_commit")
    worker.heartbeat()
    desk.driver.advance(0.2)
    worker.heartbeat()
    assert [lease.job_id for lease in desk.leases()] == [job_id]


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
    assert desk.lease(job_id).worker_id == "w1/b2", "the lost lease was not lost on the way"
    assert [letter.reason for letter in desk.dead_letters()] == ["replay_of_unknown"]


def test_a_partition_that_is_none_costs_only_the_word_that_named_it(desk: Desk) -> None:
    worker = ScriptedWorker(desk, partition=99)
    worker.heartbeat()
    good = ScriptedWorker(desk, "w2/b1")
    good.heartbeat()
    lease = desk.lease(desk.event("t1"))
    assert lease.worker_id == "w2/b1"
    desk.command(
        Claim(good.name, -1, "clm", lease.run_id, "a/b", b"", 0), lease.job_id, lease.epoch
    )
    assert [letter.reason for letter in desk.dead_letters()] == ["no_such_partition"]


def test_a_cancel_of_another_tenant_ends_nothing(desk: Desk) -> None:
    job_id = desk.event("t1", "globex")
    desk.cancel(job_id)
    assert desk.job(job_id).status == "pending"
    assert [letter.reason for letter in desk.dead_letters()] == ["cancel_of_unknown"]


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


def test_an_input_too_large_to_lease_is_dead(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    desk.submit("job_x", input='"' + "x" * 950_000 + '"')
    assert desk.job("job_x").status == "dead"
    assert [letter.reason for letter in desk.dead_letters()] == ["lease_too_large"]


def test_the_fold_of_the_public_topic_is_the_store(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "succeeded")
    stored = desk.driver.store("dispatcher", "jobs").get(b"j" + job_id.encode())
    assert stored == desk.driver.output("jobs")[-1].value
