"""A job whose code diverged from its finished steps waits until a person decides about those."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.step_results import values_of

from streams.serde.records import Lease, Settle, SettleSteps

EFFECT = "email:send/reply"


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, attempts=3)
    worker.heartbeat()
    return worker


def diverged(desk: Desk, worker: ScriptedWorker, *effects: str) -> Lease:
    """The lease of a run that diverged from a step of the run before it, which left effects."""
    lease = desk.lease(desk.event("t1"))
    worker.step(lease, "draft", '"hello"')
    for action in effects:
        worker.claim(lease, action)
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    for action in effects:
        assert worker.claim(run, action).kind == "review"
    worker.end(run, "review", error="HistoryDiverged: recorded draft", diverged="draft")
    return run


def settle(desk: Desk, run: Lease, **decided: tuple[str, ...]) -> None:
    ids = {"keep": (), "drop": (), **decided}
    body = SettleSteps(run.run_id, ids["keep"], ids["drop"], "as released", "ops")
    desk.command(body, run.job_id)


def refusals(desk: Desk) -> list[str]:
    return [letter.reason for letter in desk.dead_letters() if letter.kind == "record"]


def test_it_waits_without_an_effect_to_settle_and_goes_on_at_its_place(
    desk: Desk, worker: ScriptedWorker
) -> None:
    run = diverged(desk, worker)
    waiting = desk.job(run.job_id)
    assert (waiting.status, waiting.diverged) == ("needs_review", "draft")
    settle(desk, run)
    again = desk.lease(run.job_id)
    assert (again.epoch, again.attempt) == (run.epoch + 1, run.attempt), "no attempt is spent"
    assert values_of(again.steps) == {"draft": '"hello"'}
    going = desk.job(run.job_id)
    assert (going.diverged, going.ready_at) == (None, waiting.ready_at)
    assert going.last_error == "TransientError: x"


def test_a_kept_step_has_no_place_and_a_dropped_one_is_deleted(
    desk: Desk, worker: ScriptedWorker
) -> None:
    run = diverged(desk, worker)
    settle(desk, run, keep=("draft",))
    again = desk.lease(run.job_id)
    assert [(left.id, left.position) for left in again.steps] == [("draft", -1)]
    worker.end(again, "review", error="HistoryDiverged: x", diverged="draft")
    settle(desk, again, drop=("draft",))
    assert desk.lease(run.job_id).steps == ()


def test_an_effect_in_review_is_settled_as_well_in_any_order(
    desk: Desk, worker: ScriptedWorker
) -> None:
    run = diverged(desk, worker, EFFECT)
    desk.driver.advance(301)
    worker.heartbeat()
    settle(desk, run)
    waiting = desk.job(run.job_id)
    assert (waiting.status, waiting.diverged) == ("needs_review", None), "the effect is unknown"
    desk.command(Settle(EFFECT, "done", "1", "seen", "ops"), run.job_id)
    again = desk.lease(run.job_id)
    worker.end(again, "review", error="HistoryDiverged: x", diverged="draft")
    desk.command(Settle(EFFECT, "done", "1", "seen", "ops"), run.job_id)
    assert desk.job(run.job_id).status == "needs_review"
    settle(desk, again)
    assert desk.lease(run.job_id).epoch == again.epoch + 1


def test_settling_its_effects_alone_does_not_run_it(desk: Desk, worker: ScriptedWorker) -> None:
    run = diverged(desk, worker, EFFECT)
    desk.driver.advance(301)
    worker.heartbeat()
    desk.command(Settle(EFFECT, "done", "1", "seen", "ops"), run.job_id)
    assert (desk.job(run.job_id).status, desk.job(run.job_id).diverged) == ("needs_review", "draft")
    settle(desk, run)
    assert desk.lease(run.job_id).epoch == run.epoch + 1


def test_a_decision_counts_once_and_for_its_own_run(desk: Desk, worker: ScriptedWorker) -> None:
    run = diverged(desk, worker)
    settle(desk, run)
    settle(desk, run, drop=("draft",))
    again = desk.lease(run.job_id)
    assert values_of(again.steps) == {"draft": '"hello"'}
    worker.end(again, "review", error="HistoryDiverged: x", diverged="draft")
    settle(desk, run, drop=("draft",))
    assert desk.job(run.job_id).status == "needs_review"
    assert refusals(desk) == []


def test_what_it_cannot_mean_is_refused_and_changes_nothing(
    desk: Desk, worker: ScriptedWorker
) -> None:
    run = diverged(desk, worker)
    settle(desk, run, keep=("draft",), drop=("nothing",))
    body = SettleSteps(run.run_id, (), (), "as released", "ops")
    desk.command(body, run.job_id, tenant="globex")
    assert desk.job(run.job_id).diverged == "draft"
    settle(desk, run)
    again = desk.lease(run.job_id)
    assert [left.position for left in again.steps] == [run.steps[0].position]
    worker.claim(again, EFFECT)
    worker.end(again, "retry", after=0, error="TransientError: x")
    asks = desk.lease(run.job_id)
    worker.claim(asks, EFFECT)
    worker.end(asks, "review", error="who knows")
    settle(desk, asks)
    assert refusals(desk) == ["no_such_step", "no_such_job", "not_diverged"]


def test_a_cancel_ends_it(desk: Desk, worker: ScriptedWorker) -> None:
    run = diverged(desk, worker)
    desk.cancel(run.job_id)
    assert (desk.job(run.job_id).status, desk.job(run.job_id).diverged) == ("cancelled", None)
