"""Replays and scopes: a scope is never used twice, has one live job, and no effect is repeated
that nobody named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.replaying import failed, refusal

from streams.serde.codec import JOB
from streams.serde.ids import scope_of, scope_owner
from streams.serde.keys import join


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    return worker


def pass_retention(desk: Desk) -> None:
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)


def test_a_scope_names_job_incarnation_and_birth_and_tells_its_owner() -> None:
    scope = scope_of("job_x", 2, 1_750_000_000_000)
    assert scope.startswith("job_x.2.")
    assert int(scope.removeprefix("job_x.2."), 36) == 1_750_000_000_000
    assert scope_of("job_x", 1, -1) == "job_x.1.0"
    assert [scope_owner(s) for s in (scope, "job_x.12")] == ["job_x", "job_x"]


def test_after_a_purge_a_new_event_has_a_new_scope_and_the_same_record_no_job(
    desk: Desk, worker: ScriptedWorker
) -> None:
    born = desk.driver.now
    first = desk.lease(desk.event("t1", at=born))
    key = worker.claim(first).idempotency_key
    worker.end(first, "succeeded")
    pass_retention(desk)
    worker.heartbeat()
    later = desk.lease(desk.event("t1"))
    assert (later.incarnation, first.incarnation) == (1, 1)
    assert later.scope != first.scope
    assert worker.claim(later).idempotency_key != key
    worker.end(later, "succeeded")
    pass_retention(desk)
    worker.heartbeat()
    desk.event("t1", at=born)
    assert len(desk.leases()) == 2


def test_a_replay_in_the_old_scope_leaves_nothing_to_a_new_event_of_its_id(
    desk: Desk, worker: ScriptedWorker
) -> None:
    old = failed(desk, worker, done=True)
    desk.driver.advance(desk.topology.finished_jobs_ms / 2000)
    desk.replay("job_same", old.job_id)
    worker.heartbeat()
    desk.driver.advance(desk.topology.finished_jobs_ms / 2000)
    desk.driver.advance(1)
    worker.heartbeat()
    reborn = desk.lease(desk.event("t1"))
    assert worker.claim(reborn).kind == "granted", "the new event's effect was never done"
    assert worker.claim(desk.lease("job_same")).kind == "done"


def test_an_expiry_of_an_earlier_life_takes_nothing_from_a_later_one(
    desk: Desk, worker: ScriptedWorker
) -> None:
    job_id = failed(desk, worker).job_id
    desk.driver.advance(desk.topology.finished_jobs_ms / 2000)
    desk.replay("job_new", job_id)  # writes the ended job again, and its expiry
    worker.heartbeat()
    worker.end(desk.lease("job_new"), "succeeded")
    desk.driver.advance(desk.topology.finished_jobs_ms / 2000)
    desk.driver.advance(1)
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    worker.step(lease, "draft", "1")
    worker.outcome(lease, worker.claim(lease), "done", "1")
    desk.driver.advance(desk.topology.finished_jobs_ms / 2000)
    desk.driver.advance(1)
    stores = [desk.driver.store("dispatcher", name) for name in ("checkpoints", "ledger")]
    assert desk.driver.store("dispatcher", "jobs").get(job_id.encode()) is not None
    assert [len(list(store.range(b"", b"\xff"))) for store in stores] == [1, 1]


def test_a_scope_has_one_live_job(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    desk.replay("job_one", old.job_id)
    desk.replay("job_two", old.job_id, again=True)
    assert refusal(desk).reason == "scope_in_use"
    assert "job_one" in refusal(desk).detail
    worker.end(desk.lease("job_one"), "failed", error="PermanentError: y")
    desk.replay("job_three", old.job_id, again=True)
    desk.replay("job_four", "job_one")
    assert "job_three" in refusal(desk).detail, "one that shares the scope keeps it, too"
    assert {lease.job_id for lease in desk.leases()} == {old.job_id, "job_one", "job_three"}


def test_two_replays_of_one_batch_do_not_both_get_the_scope(
    desk: Desk, worker: ScriptedWorker
) -> None:
    old = failed(desk, worker)
    with desk.held_back():
        desk.replay("job_one", old.job_id)
        desk.replay("job_two", old.job_id, again=True)
    assert [lease.job_id for lease in desk.leases()] == [old.job_id, "job_one"]


def test_a_scope_stays_in_use_across_a_restart(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    desk.replay("job_one", old.job_id)
    desk.driver.restart("dispatcher")
    desk.replay("job_two", old.job_id, again=True)
    assert refusal(desk).reason == "scope_in_use"


def test_an_owner_that_lives_keeps_its_scope(desk: Desk, worker: ScriptedWorker) -> None:
    """A replay of a replay, while a person still decides on the job whose scope both have."""
    owner = desk.lease(desk.event("t1"))
    worker.end(owner, "failed", error="PermanentError: x")
    desk.replay("job_one", owner.job_id)
    worker.end(desk.lease("job_one"), "failed", error="PermanentError: x")
    jobs = desk.driver.store("dispatcher", "jobs")
    review = replace(desk.job(owner.job_id), status="needs_review")
    jobs.put(owner.job_id.encode(), JOB.encode(review))
    desk.replay("job_two", "job_one")
    assert (refusal(desk).reason, owner.job_id in refusal(desk).detail) == ("scope_in_use", True)


def test_a_living_claim_of_another_job_of_the_scope_is_not_taken_for_one_that_is_over(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """The dispatcher lets one job live in a scope; the ledger checks it once more."""
    old = failed(desk, worker)
    desk.replay("job_one", old.job_id)
    one = desk.lease("job_one")
    desk.submit("job_two")
    jobs = desk.driver.store("dispatcher", "jobs")
    two = desk.lease("job_two")
    jobs.put(b"job_two", JOB.encode(replace(desk.job("job_two"), scope=one.scope)))
    desk.driver.store("dispatcher", "parts").put(b"s" + join(one.scope, "job_two"), b"")
    first = worker.claim(one)
    second = worker.claim(two)
    assert (first.kind, second.kind) == ("granted", "held")
    assert "job_one" in second.message
    worker.outcome(one, first, "done", '"sent"')
    assert worker.claim(two).kind == "done"


def test_the_done_of_a_call_that_was_repeated_under_its_key_counts(
    desk: Desk, worker: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    first = worker.claim(lease, lifetime_ms=3_600_000)
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    again = worker.claim(run, lifetime_ms=3_600_000)
    assert again.repeat
    worker.outcome(lease, first, "failed")
    assert desk.ledger()[-1].status == "claimed", "it says nothing of the call under way"
    worker.outcome(lease, first, "done", '"sent"')
    assert (desk.ledger()[-1].status, desk.ledger()[-1].result) == ("done", '"sent"')
    worker.outcome(run, again, "unknown")
    assert desk.ledger()[-1].status == "done"


def test_a_replay_may_bring_another_input_and_begins_without_the_old_steps(
    desk: Desk, worker: ScriptedWorker
) -> None:
    desk.submit("job_old", input='{"amount":1}')
    worker.end(desk.lease("job_old"), "failed", error="PermanentError: x")
    desk.replay("job_edited", "job_old", input='{"amount":2}')
    made = desk.job("job_edited")
    assert (made.input, made.replay_of) == ('{"amount":2}', "job_old")
    assert made.scope == desk.job("job_old").scope
    assert desk.job("job_old").input == '{"amount":1}'


def test_the_job_of_an_event_has_no_input_to_edit(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    desk.replay("job_edited", old.job_id, input="{}")
    assert refusal(desk).reason == "no_input"
