"""Effects that count beyond their job, and whose outcome nobody knows."""

from __future__ import annotations

import pytest
from support.dispatching import DIGEST, Desk, ScriptedWorker
from support.shared_effects import (
    DAY_MS,
    EFFECT,
    KEEP_MS,
    PATIENCE,
    claim,
    in_review,
    job,
    later,
    next_run,
    outcome,
    refusals,
    settle,
    shared,
)

from streams.dispatcher import review
from streams.serde.records import Claim, Outcome


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    return worker


@pytest.mark.parametrize("ending", ["unknown", "lost"])
def test_an_unknown_outcome_is_repeated_by_another_job_under_the_key_that_is_honoured(
    desk: Desk, worker: ScriptedWorker, ending: str
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first, lifetime_ms=DAY_MS)
    if ending == "unknown":
        outcome(worker, first, granted, "unknown")
    worker.end(first, "retry", after=600, error="TransientError: x")
    repeat = claim(worker, second, lifetime_ms=DAY_MS)
    assert (repeat.kind, repeat.repeat) == ("granted", True)
    assert repeat.idempotency_key == granted.idempotency_key
    outcome(worker, second, repeat, "done", "2")
    later(desk, worker, 700)
    assert claim(worker, desk.lease(first.job_id), lifetime_ms=DAY_MS).result == "2"


def test_an_unknown_outcome_of_a_keyless_tool_asks_one_person_for_all_jobs(
    desk: Desk, worker: ScriptedWorker
) -> None:
    leases = [job(desk, f"t{n}") for n in range(5)]
    claim(worker, leases[0])
    runs = [in_review(desk, worker, next_run(desk, worker, leases[0]))]
    runs += [in_review(desk, worker, lease) for lease in leases[1:]]
    later(desk, worker)
    settle(desk, runs[3].job_id, "done", result='{"id":7}')
    for run in runs:
        again = desk.lease(run.job_id)
        assert again.epoch == run.epoch + 1, "each goes on"
        reply = claim(worker, again)
        assert (reply.kind, reply.result) == ("done", '{"id":7}')


def test_what_was_not_done_is_begun_by_one_of_the_jobs(desk: Desk, worker: ScriptedWorker) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    in_review(desk, worker, next_run(desk, worker, first))
    in_review(desk, worker, second)
    later(desk, worker)
    settle(desk, first.job_id, "failed")
    replies = [claim(worker, desk.lease(each.job_id)).kind for each in (second, first)]
    assert replies == ["granted", "busy"]


def test_a_late_outcome_lets_all_jobs_in_review_go_on(desk: Desk, worker: ScriptedWorker) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    in_review(desk, worker, next_run(desk, worker, first))
    in_review(desk, worker, second)
    outcome(worker, first, granted, "done", "1")
    assert [desk.job(each.job_id).status for each in (first, second)] == ["running"] * 2
    assert claim(worker, desk.lease(second.job_id)).result == "1"


def test_more_jobs_go_on_than_one_step_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "AT_ONCE", 5)
    worker = ScriptedWorker(desk, slots=30, backoff=(0,), attempts=9)
    worker.heartbeat()
    first = job(desk, "t")
    claim(worker, first)
    in_review(desk, worker, next_run(desk, worker, first))
    runs = [in_review(desk, worker, job(desk, f"t{n}")) for n in range(22)]
    later(desk, worker)
    settle(desk, first.job_id, "done")
    worker.stay(10)
    again = [desk.lease(run.job_id).epoch for run in runs]
    assert again == [run.epoch + 1 for run in runs]


def test_a_job_in_review_for_two_effects_waits_for_both(desk: Desk, worker: ScriptedWorker) -> None:
    lease = job(desk, "t1")
    claim(worker, lease)
    worker.claim(lease, "crm:note/1")
    run = next_run(desk, worker, lease)
    assert [claim(worker, run).kind, worker.claim(run, "crm:note/1").kind] == ["review", "review"]
    worker.end(run, "review", error="who knows")
    later(desk, worker)
    settle(desk, run.job_id, "done")
    assert desk.job(run.job_id).status == "needs_review"
    settle(desk, run.job_id, "done", once_per="job", action="crm:note/1")
    assert desk.lease(run.job_id).epoch == run.epoch + 1


def test_a_job_without_attempts_asks_a_person_about_its_shared_effect(desk: Desk) -> None:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=1)
    worker.heartbeat()
    first = job(desk, "t1")
    outcome(worker, first, claim(worker, first), "unknown")
    worker.end(first, "retry", error="TransientError: x")
    waiting = desk.job(first.job_id)
    assert (waiting.status, waiting.end_reason) == ("needs_review", "attempts_exhausted")
    second = in_review(desk, worker, job(desk, "t2"))
    later(desk, worker)
    settle(desk, second.job_id, "done", result="1")
    assert claim(worker, desk.lease(first.job_id)).result == "1"
    assert claim(worker, desk.lease(second.job_id)).result == "1"


def test_a_job_without_attempts_does_not_ask_about_what_another_job_does_now(
    desk: Desk,
) -> None:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=1)
    worker.heartbeat()
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    assert claim(worker, second).kind == "busy"
    worker.end(second, "retry", error="TransientError: x")
    assert desk.job(second.job_id).status == "dead"
    outcome(worker, first, granted, "done", "1")
    assert shared(desk)[0].status == "done"


def test_nothing_is_settled_while_a_run_of_another_job_makes_it(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first, lifetime_ms=400_000)
    claim(worker, second)
    worker.stay(400, first)
    settle(desk, second.job_id, "failed")
    (letter,) = refusals(desk)
    assert (letter.reason, first.job_id in letter.detail) == ("not_in_review", True)
    assert shared(desk)[0].status == "claimed"


def test_nothing_is_settled_too_early_or_twice(desk: Desk, worker: ScriptedWorker) -> None:
    first = job(desk, "t1")
    claim(worker, first)
    run = in_review(desk, worker, next_run(desk, worker, first))
    settle(desk, run.job_id, "failed")
    later(desk, worker)
    settle(desk, run.job_id, "done")
    settle(desk, run.job_id, "failed")
    settle(desk, run.job_id, "failed", action="email:send/other")
    settle(desk, run.job_id, "failed", tenant="globex")
    assert [letter.reason for letter in refusals(desk)] == [
        "too_early",
        "already_settled",
        "no_such_effect",
        "no_such_effect",
    ]


def test_a_decision_that_is_open_again_keeps_its_jobs_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect was not done; another job began it at once, and its outcome is unknown, too."""
    monkeypatch.setattr(review, "AT_ONCE", 5)
    worker = ScriptedWorker(desk, slots=30, backoff=(0,), attempts=9)
    worker.heartbeat()
    first, other = job(desk, "t"), job(desk, "other")
    claim(worker, first)
    in_review(desk, worker, next_run(desk, worker, first))
    runs = [in_review(desk, worker, job(desk, f"t{n}")) for n in range(22)]
    worker.stay(PATIENCE, other)
    with desk.held_back():
        settle(desk, first.job_id, "failed")
        worker.claim(other, once_per="tenant", claim_id="clm_1")
        lost = Outcome("clm_1", other.run_id, EFFECT, "unknown", None, None, "tenant")
        desk.command(lost, other.job_id, other.epoch)
        worker.claim(other, once_per="tenant", claim_id="clm_2")
    assert shared(desk)[0].status == "review"
    worker.stay(10, other)
    assert list(desk.driver.store("dispatcher", "parts").range(b"D", b"E")) == []
    assert sum(desk.job(each.job_id).status == "needs_review" for each in runs) >= 17
    later(desk, worker)
    settle(desk, other.job_id, "done")
    worker.stay(10)
    assert [each for each in runs if desk.job(each.job_id).status == "needs_review"] == []


def test_jobs_that_are_left_wait_for_the_next_call_of_an_effect_that_was_not_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would run only to hear that one of them is calling the tool."""
    monkeypatch.setattr(review, "AT_ONCE", 5)
    worker = ScriptedWorker(desk, slots=30, backoff=(0,), attempts=9)
    worker.heartbeat()
    first, others = job(desk, "t"), [job(desk, f"o{n}") for n in range(20)]
    granted = claim(worker, first)
    worker.stay(100, first, *others)
    for lease in others:
        claim(worker, lease)
        worker.end(lease, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    with desk.held_back():
        outcome(worker, first, granted, "failed")
        again = Claim("clm_2", first.run_id, EFFECT, DIGEST, 0, "tenant", KEEP_MS)
        desk.command(again, first.job_id, first.epoch)
    begun = len(desk.leases())
    desk.driver.advance(0.9)
    assert shared(desk)[0].status == "claimed"
    assert len(desk.leases()) == begun
    assert sum(desk.job(lease.job_id).status == "scheduled" for lease in others) == 15
