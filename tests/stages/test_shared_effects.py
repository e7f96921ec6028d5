"""Effects that count beyond their job: one for all jobs of a tenant that name the same key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.asking import ACTION, Asker, digest
from support.dispatching import ROUTES, Desk, ScriptedWorker
from support.shared_effects import (
    EFFECT,
    KEEP_MS,
    block,
    claim,
    in_review,
    job,
    next_run,
    outcome,
    refusals,
    shared,
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    return worker


def test_a_second_job_gets_the_result_of_the_first(desk: Desk, worker: ScriptedWorker) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    outcome(worker, first, granted, "done", '{"id":7}')
    again = claim(worker, second)
    assert (granted.kind, again.kind, again.result) == ("granted", "done", '{"id":7}')
    assert again.idempotency_key == granted.idempotency_key
    (entry,) = shared(desk)
    assert (entry.scope, entry.job_id, entry.claims) == ("@tenant", first.job_id, 1)


@pytest.mark.parametrize("once_per", ["job", "tenant", "invoices"])
def test_each_scope_counts_for_itself(desk: Desk, worker: ScriptedWorker, once_per: str) -> None:
    lease = job(desk, "t1")
    others = [claim(worker, lease, each) for each in ("job", "tenant", "invoices", "refunds")]
    assert {reply.kind for reply in others} == {"granted"}
    assert len({reply.idempotency_key for reply in others}) == 4
    assert claim(worker, lease, once_per).kind == "held", "its own call is under way"


def test_another_tenant_has_its_own(desk: Desk, worker: ScriptedWorker) -> None:
    ours, theirs = job(desk, "t1"), job(desk, "t1", "globex")
    first = claim(worker, ours)
    outcome(worker, ours, first, "done", "1")
    body = claim(worker, theirs)
    # `ScriptedWorker` speaks for acme; the lease decides, and globex's is not acme's job.
    assert (body.kind, body.idempotency_key != first.idempotency_key) == ("granted", True)


def test_other_arguments_are_refused_and_name_the_job_that_did_it(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    outcome(worker, first, claim(worker, first), "done", "1")
    reply = claim(worker, second, digest=b"e" * 32)
    assert reply.kind == "refused"
    assert f"other arguments by job {first.job_id}" in reply.message


def test_a_second_job_waits_for_the_first_without_a_slot_or_an_attempt(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    for _ in range(12):
        busy = claim(worker, second)
        assert busy.kind == "busy"
        assert first.job_id in busy.message
        worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error=busy.message)
        waiting = desk.job(second.job_id)
        assert (waiting.status, waiting.worker_id, waiting.attempts) == ("scheduled", None, 0)
        assert 1000 <= (waiting.next_retry_at or 0) - desk.driver.now <= 15_000
        assert waiting.history == ()
        worker.stay(15, first)
        second = desk.lease(second.job_id)
    outcome(worker, first, granted, "done", "1")
    reply = claim(worker, second)
    assert (reply.kind, reply.result, second.attempt) == ("done", "1", 1)


@pytest.mark.parametrize("status", ["done", "failed"])
def test_the_jobs_that_wait_go_on_when_the_outcome_is_recorded(
    desk: Desk, worker: ScriptedWorker, status: str
) -> None:
    first, others = job(desk, "t1"), [job(desk, f"o{n}") for n in range(3)]
    granted = claim(worker, first)
    worker.stay(200, first, *others)
    for lease in others:
        claim(worker, lease)
        worker.end(lease, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    outcome(worker, first, granted, status)
    again = [desk.lease(each.job_id) for each in others]
    assert [each.epoch for each in again] == [each.epoch + 1 for each in others], "at once"
    replies = [claim(worker, each).kind for each in again]
    assert replies == (["done"] * 3 if status == "done" else ["granted", "busy", "busy"])


def test_a_job_that_waits_for_something_else_by_now_is_left_alone(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    claim(worker, second)
    worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    worker.stay(10, first)
    worker.end(desk.lease(second.job_id), "retry", after=600, error="TransientError: x")
    due = desk.job(second.job_id).next_retry_at
    outcome(worker, first, granted, "done")
    waiting = desk.job(second.job_id)
    assert (waiting.status, waiting.next_retry_at) == ("scheduled", due)


def test_a_job_whose_other_job_is_lost_asks_again(desk: Desk, worker: ScriptedWorker) -> None:
    other = ScriptedWorker(desk, "w2/b1")
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    claim(worker, second)
    worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    worker.leave()  # the process is gone, and says nothing of its call
    other.heartbeat()
    other.stay(46)
    assert claim(other, desk.lease(second.job_id)).kind == "review"


def test_a_job_that_hears_of_the_end_late_does_not_wait(desk: Desk, worker: ScriptedWorker) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    assert claim(worker, second).kind == "busy"
    outcome(worker, first, granted, "done", "1")
    worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    again = desk.lease(second.job_id)
    assert (again.epoch, again.attempt) == (second.epoch + 1, 1)
    assert claim(worker, again).kind == "done"


@pytest.mark.parametrize("result", [None, "null", "[1,2]", '["tenant"]', "{}", "nonsense"])
def test_a_blocked_run_that_names_no_effect_goes_on(
    desk: Desk, worker: ScriptedWorker, result: str | None
) -> None:
    lease = job(desk, "t1")
    worker.end(lease, "blocked", result=result, error="busy")
    assert desk.lease(lease.job_id).epoch == lease.epoch + 1


def test_a_cancelled_job_that_waits_ends(desk: Desk, worker: ScriptedWorker) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    claim(worker, second)
    desk.cancel(second.job_id)
    worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    assert desk.job(second.job_id).status == "cancelled"


def test_a_replay_in_a_fresh_scope_gets_the_shared_result(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first = job(desk, "t1")
    outcome(worker, first, claim(worker, first), "done", "1")
    worker.end(first, "failed", error="PermanentError: x")
    desk.replay("job_fresh", first.job_id, fresh_scope=True)
    assert refusals(desk) == [], "a fresh scope repeats no shared effect"
    assert claim(worker, desk.lease("job_fresh")).result == "1"


@pytest.mark.parametrize("waits", ["for its outcome", "for a person"])
def test_a_job_that_has_ended_waits_for_nothing(
    desk: Desk, worker: ScriptedWorker, waits: str
) -> None:
    """Otherwise an effect that nobody settles would keep a note of every job that asked for it."""
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    if waits == "for its outcome":
        block(worker, second)
    else:
        in_review(desk, worker, next_run(desk, worker, first))
        in_review(desk, worker, second)
    waiting = desk.driver.store("dispatcher", "parts")
    before = len(list(waiting.range(b"v", b"w")))
    desk.driver.restart("dispatcher", keep_state=False)
    desk.cancel(second.job_id)
    assert desk.job(second.job_id).status == "cancelled"
    assert len(list(waiting.range(b"v", b"w"))) == before - 1


def test_a_job_that_begins_anew_waits_for_nothing_that_its_former_life_asked_for(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    block(worker, second)
    desk.driver.advance(16)
    again = desk.lease(second.job_id)
    assert again.epoch == second.epoch + 1, "it asks again"
    worker.end(again, "continued", result="{}")
    assert list(desk.driver.store("dispatcher", "parts").range(b"v", b"w")) == []


def test_a_job_says_for_which_effect_it_waits_only_while_it_does(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    granted = claim(worker, first)
    block(worker, second)
    assert desk.job(second.job_id).awaits_effect == f"@tenant/{EFFECT}"
    outcome(worker, first, granted, "done", "1")
    assert (desk.job(second.job_id).status, desk.job(second.job_id).awaits_effect) == (
        "running",
        None,
    )


def test_of_two_drafts_the_second_one_gets_the_result_of_the_approved_one() -> None:
    at = Asker(*(replace(route, draft=True) for route in ROUTES))
    first, second = at.job("a"), at.job("b")
    terms: dict[str, Any] = {"once_per": "tenant", "keep_ms": KEEP_MS, "digest": digest(82_000)}
    assert [at.worker.claim(each, ACTION, **terms).kind for each in (first, second)] == [
        "approval",
        "approval",
    ]
    at.decide(first, at.ask(first, key=ACTION))
    granted = at.worker.claim(first, ACTION, **terms)
    assert (granted.kind, at.worker.claim(second, ACTION, **terms).kind) == ("granted", "busy")
    at.worker.outcome(first, granted, "done", "1", action=ACTION, once_per="tenant")
    assert at.worker.claim(second, ACTION, **terms).result == "1"
