"""A lease: who gets it, how long it lasts, who may end it."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.step_results import values_of

from streams.topology.limits import Limit


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def test_free_slots_are_never_overrun(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=2)
    worker.heartbeat()
    ids = [desk.event(f"t{n}") for n in range(5)]
    assert len(desk.leases()) == 2
    worker.end(desk.lease(ids[0]), "succeeded", free=1)
    assert len(desk.leases()) == 3


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
    assert (again.epoch, desk.taker(job_id), again.attempt) == (2, "w2/b1", 1)
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
    desk.driver.unread.add("link")
    desk.driver.advance(33)
    assert desk.job(job_id).status == "running"
    desk.driver.unread.clear()
    desk.driver.advance(1)
    assert desk.job(job_id).status == "pending"


def test_if_no_worker_could_be_heard_every_lease_gets_a_fresh_term(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.driver.unread.add("link")
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
    desk.driver.unread.add("link")
    for _ in range(6):
        alive.heartbeat(free=0)
        desk.driver.advance(3)
    desk.driver.unread.clear()
    alive.heartbeat()
    desk.driver.advance(0.5)
    assert desk.taker(job_id) == "w2/b1"


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
    assert (desk.lease(job_id).epoch, desk.taker(job_id)) == (2, "w1/b2")
    worker.lists(desk.leases()[0])
    assert len(desk.leases()) == 2, "a late heartbeat of the old boot brings nothing back"
    assert desk.taker(desk.event("t2")) == "w1/b2"


def test_a_declined_lease_goes_elsewhere_and_costs_no_attempt(desk: Desk) -> None:
    full, other = ScriptedWorker(desk, "w1/b1", slots=5), ScriptedWorker(desk, "w2/b1", slots=1)
    full.heartbeat()
    other.heartbeat()
    job_id = desk.event("t1")
    assert desk.taker(job_id) == "w1/b1"
    full.decline(desk.lease(job_id))
    again = desk.lease(job_id)
    assert (desk.taker(job_id), again.epoch, again.attempt) == ("w2/b1", 2, 1)


def test_who_never_held_a_lease_cannot_decline_it(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    ScriptedWorker(desk, "w2/b1").decline(lease)
    ScriptedWorker(desk, "w1/b2").decline(lease)
    assert desk.job(lease.job_id).epoch == 1


def test_a_worker_that_declined_a_lease_is_full_until_its_next_beat(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.decline(desk.lease(job_id))
    desk.driver.advance(1)
    assert len(desk.leases()) == 1
    worker.heartbeat()
    assert (desk.lease(job_id).epoch, desk.lease(job_id).attempt) == (2, 1)


def test_a_cancel_is_not_forgotten_when_the_lease_is_declined(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.cancel(job_id)
    worker.decline(desk.lease(job_id))
    worker.heartbeat()
    assert (desk.job(job_id).status, len(desk.leases())) == ("cancelled", 1)


def test_nothing_is_leased_before_it_is_known_which_tenants_are_closed(
    desk: Desk, worker: ScriptedWorker
) -> None:
    desk.driver.unread.add("tenants")
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.driver.advance(1)
    assert desk.leases() == []
    desk.driver.unread.clear()
    desk.driver.advance(0.2)
    assert desk.lease(job_id).attempt == 1


def test_leases_are_sent_at_once_whatever_of_the_commands_is_unread(
    desk: Desk, worker: ScriptedWorker
) -> None:
    desk.driver.unread.add("jobs.commands")
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    job_id = desk.event("t1")
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
    assert values_of(desk.lease(job_id).steps) == {"draft": '"hello"'}


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
    held = [lease for lease in desk.leases() if lease.job_id != ours[0]]
    desk.driver.restart("dispatcher")
    worker.heartbeat(*held)
    desk.driver.advance(0.2)
    assert len(desk.leases()) == 4, "caps are counted anew from the living leases"


def test_a_lease_that_was_lost_on_its_way_is_given_anew_at_once(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """Its owner died after the commit, so the worker never listed it, and the heir knows that."""
    worker.heartbeat()
    job_id = desk.event("t1")
    lost, worker.forgets = desk.lease(job_id), True
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    desk.driver.advance(0.5)
    again = desk.lease(job_id)
    assert (again.epoch, again.attempt) == (lost.epoch + 1, lost.attempt)


def test_a_lease_of_a_run_that_has_claimed_did_arrive(desk: Desk, worker: ScriptedWorker) -> None:
    """Its worker has lost the run since, and a call of it may still be under way."""
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.claim(desk.lease(job_id), lifetime_ms=3_600_000)
    worker.forgets = True
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    desk.driver.advance(0.5)
    assert [lease.job_id for lease in desk.leases()] == [job_id]


def test_a_lease_on_its_way_over_the_present_connection_is_not_given_anew(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.heartbeat()
    assert [lease.job_id for lease in desk.leases()] == [job_id]


def test_a_lease_that_was_sent_over_a_broken_connection_is_given_anew(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.lose_connection()
    worker.forgets = True
    worker.heartbeat()
    assert [lease.job_id for lease in desk.leases()] == [job_id] * 2


def test_a_heartbeat_of_a_connection_that_has_ended_gives_no_lease_anew(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """It was sent before the lease was read, over the connection that brought the lease."""
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.lose_connection()
    worker.lists()
    ScriptedWorker(desk, "w2/b1").heartbeat()
    worker.heartbeat(desk.lease(job_id))
    assert [lease.job_id for lease in desk.leases()] == [job_id]


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


def test_large_leases_are_sent_in_several_transactions(
    desk: Desk, worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of hundreds of them would not end in time, and be tried again for ever."""
    monkeypatch.setattr("streams.dispatcher.parts.leasing._BYTES_AT_ONCE", 1_500_000)
    for number in range(5):
        desk.submit(f"job_{number}", input='"' + "x" * 800_000 + '"')
    commits = desk.driver.run_of("dispatcher").commits
    commit, sizes = commits.commit, []

    def noted(tasks, *, alone=False) -> None:  # type: ignore[no-untyped-def]
        sizes.append(sum(len(r.value or b"") for t in tasks for *_, own in t.outputs for r in own))
        commit(tasks, alone=alone)

    monkeypatch.setattr(commits, "commit", noted)
    worker.heartbeat()
    desk.driver.advance(1)
    assert len(desk.leases()) == 5
    assert max(sizes) < 1_800_000


def test_an_input_too_large_to_lease_is_dead(desk: Desk) -> None:
    ScriptedWorker(desk).heartbeat()
    desk.submit("job_x", input='"' + "x" * 890_000 + '"')
    lease = desk.lease("job_x")
    steps = ((name, '"' + "y" * 9_000 + '"') for name in ("a", "b", "c", "d"))
    for name, value in steps:
        ScriptedWorker(desk).step(lease, name, value)
    ScriptedWorker(desk).end(lease, "retry", after=0, error="TransientError: x")
    job = desk.job("job_x")
    assert (job.status, job.attempts, job.epoch) == ("dead", 1, 1)
    assert [letter.reason for letter in desk.dead_letters()] == ["lease_too_large"]
