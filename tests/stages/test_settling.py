"""Settling: a person says what became of an effect, and its job goes on from there."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.step_results import values_of

from streams.serde.records import DeadLetter, Lease, LedgerEntry, Settle

EFFECT = "email:send/reply"
OTHER = "crm:note/1"
PATIENCE = 301
"""Seconds after which no call of the handlers, whose timeout is 300 s, can be under way."""


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, attempts=9)
    worker.heartbeat()
    return worker


def in_review(desk: Desk, worker: ScriptedWorker, *actions: str, key: str = "t1") -> Lease:
    """The lease of a run that ended because effects of the one before it are unknown."""
    lease = desk.lease(desk.event(key))
    for action in actions or (EFFECT,):
        worker.claim(lease, action)
    worker.step(lease, "draft", '"hello"')
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    for action in actions or (EFFECT,):
        assert worker.claim(run, action).kind == "review"
    worker.end(run, "review", error="who knows")
    assert desk.job(run.job_id).status == "needs_review"
    return run


def settle(desk: Desk, job_id: str, status: Any, *, at: int = 0, **fields: Any) -> None:
    told = {"action": EFFECT, "result": None, "note": "asked the vendor", "submitted_by": "ops"}
    desk.command(Settle(status=status, **{**told, **fields}), job_id, at=at)


def refusals(desk: Desk) -> list[DeadLetter]:
    return [letter for letter in desk.dead_letters() if letter.kind == "record"]


def entry(desk: Desk, action: str = EFFECT) -> LedgerEntry:
    return [each for each in desk.ledger() if each.action == action][-1]


def later(desk: Desk, worker: ScriptedWorker, seconds: float = PATIENCE) -> None:
    desk.driver.advance(seconds)
    worker.heartbeat()


def test_a_done_effect_is_not_done_again_and_the_job_goes_on(
    desk: Desk, worker: ScriptedWorker
) -> None:
    run = in_review(desk, worker)
    before = desk.job(run.job_id)
    assert before.last_error == "who knows"
    later(desk, worker)
    settle(desk, run.job_id, "done", result='{"id":7}')
    known = entry(desk)
    assert (known.status, known.result, known.settled_by, known.note) == (
        "done",
        '{"id":7}',
        "ops",
        "asked the vendor",
    )
    assert desk.job(run.job_id).last_error == "TransientError: x", "nobody is asked any more"
    again = desk.lease(run.job_id)
    assert (again.epoch, again.attempt, again.scope) == (run.epoch + 1, run.attempt, run.scope)
    assert values_of(again.steps) == {"draft": '"hello"'}
    assert desk.job(run.job_id).ready_at == before.ready_at, "at its place"
    reply = worker.claim(again)
    assert (reply.kind, reply.result) == ("done", '{"id":7}')


def test_what_was_not_done_is_begun_again(desk: Desk, worker: ScriptedWorker) -> None:
    run = in_review(desk, worker)
    later(desk, worker)
    settle(desk, run.job_id, "failed")
    assert (entry(desk).status, entry(desk).claims) == ("failed", 0)
    reply = worker.claim(desk.lease(run.job_id))
    assert (reply.kind, reply.repeat) == ("granted", False)
    assert (entry(desk).settled_by, entry(desk).note) == (None, None), "it is another call's now"


def test_done_without_a_result_is_null(desk: Desk, worker: ScriptedWorker) -> None:
    run = in_review(desk, worker)
    later(desk, worker)
    settle(desk, run.job_id, "done")
    assert worker.claim(desk.lease(run.job_id)).result == "null"


def test_the_job_waits_for_every_effect_in_review(desk: Desk, worker: ScriptedWorker) -> None:
    run = in_review(desk, worker, EFFECT, OTHER)
    later(desk, worker)
    settle(desk, run.job_id, "done")
    assert desk.job(run.job_id).status == "needs_review"
    settle(desk, run.job_id, "failed", action=OTHER)
    again = desk.lease(run.job_id)
    assert again.epoch == run.epoch + 1
    assert [worker.claim(again, a).kind for a in (EFFECT, OTHER)] == ["done", "granted"]


def test_an_effect_that_nobody_asked_about_yet_may_be_settled_too(
    desk: Desk, worker: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.claim(lease)
    worker.outcome(lease, worker.claim(lease, OTHER), "unknown", action=OTHER)
    assert worker.claim(lease, OTHER).kind == "review"
    worker.end(lease, "review", error="who knows")
    later(desk, worker)
    assert entry(desk).status == "claimed"
    settle(desk, lease.job_id, "done")
    assert (entry(desk).status, desk.job(lease.job_id).status) == ("done", "needs_review")


@pytest.mark.parametrize("seconds", [29, 299])
def test_nothing_is_settled_while_its_call_may_be_under_way(
    desk: Desk, worker: ScriptedWorker, seconds: float
) -> None:
    run = in_review(desk, worker)
    later(desk, worker, seconds)
    settle(desk, run.job_id, "failed")
    (letter,) = refusals(desk)
    assert letter.reason == "too_early"
    assert "2025-06-15T15:11" in letter.detail, "when it will be possible"
    assert letter.detail.endswith(f"(in {300 - seconds:.0f} s)")
    assert entry(desk).status == "review"
    later(desk, worker, PATIENCE - seconds)
    settle(desk, run.job_id, "failed")
    assert desk.lease(run.job_id).epoch == run.epoch + 1


def test_the_same_word_twice_is_one(desk: Desk, worker: ScriptedWorker) -> None:
    run = in_review(desk, worker)
    later(desk, worker)
    settle(desk, run.job_id, "done", result="1")
    written = len(desk.ledger())
    settle(desk, run.job_id, "done", result="1")
    desk.driver.restart("dispatcher")
    settle(desk, run.job_id, "done", result="1")
    assert (len(desk.ledger()), refusals(desk)) == (written, [])
    settle(desk, run.job_id, "done", result="2")
    settle(desk, run.job_id, "failed")
    assert [letter.reason for letter in refusals(desk)] == ["already_settled"] * 2
    assert entry(desk).result == "1"


def test_a_word_read_again_says_nothing_of_a_later_call(desk: Desk, worker: ScriptedWorker) -> None:
    run = in_review(desk, worker)
    later(desk, worker)
    told_at = desk.driver.now
    settle(desk, run.job_id, "failed")
    second = desk.lease(run.job_id)
    worker.claim(second)
    worker.end(second, "retry", after=0, error="TransientError: x")
    third = desk.lease(run.job_id)
    assert worker.claim(third).kind == "review"
    worker.end(third, "review", error="who knows")
    later(desk, worker)
    settle(desk, run.job_id, "failed", at=told_at)
    assert [letter.reason for letter in refusals(desk)] == ["too_early"]
    assert entry(desk).status == "review"


def test_what_cannot_be_settled_says_why(desk: Desk, worker: ScriptedWorker) -> None:
    run = in_review(desk, worker)
    later(desk, worker)
    settle(desk, "job_gone", "done")
    settle(desk, desk.event("t2", "globex"), "done")
    settle(desk, run.job_id, "done", action="email:send/none")
    settle(desk, run.job_id, "perhaps")
    settle(desk, run.job_id, "done", result="{")
    settle(desk, run.job_id, "done", result='"' + "x" * 256 * 1024 + '"')
    lease = desk.lease(desk.event("t3"))
    worker.claim(lease)
    later(desk, worker, 1)
    settle(desk, lease.job_id, "failed")
    assert [letter.reason for letter in refusals(desk)] == [
        "settle_of_unknown",
        "settle_of_unknown",
        "no_such_effect",
        "not_supported",
        "result_not_json",
        "result_too_large",
        "not_in_review",
    ]
    assert entry(desk).status == "claimed"


def test_a_job_that_was_to_be_cancelled_ends_when_its_effect_is_settled(
    desk: Desk, worker: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.claim(lease)
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    worker.claim(run)
    desk.cancel(lease.job_id)
    worker.end(run, "review", error="who knows")
    later(desk, worker)
    settle(desk, run.job_id, "failed")
    job = desk.job(lease.job_id)
    assert (job.status, job.last_error) == ("cancelled", "Cancelled: not needed")


@pytest.mark.parametrize("ended_first", [False, True])
def test_the_late_truth_of_the_call_settles_it_without_a_person(
    desk: Desk, worker: ScriptedWorker, *, ended_first: bool
) -> None:
    lease = desk.lease(desk.event("t1"))
    first = worker.claim(lease)
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    assert worker.claim(run).kind == "review"
    if ended_first:
        worker.end(run, "review", error="who knows")
        assert desk.job(lease.job_id).status == "needs_review"
    worker.outcome(lease, first, "unknown")
    assert entry(desk).status == "review", "that is what a person is asked about"
    worker.outcome(lease, first, "done", '"sent"')
    if not ended_first:
        worker.end(run, "review", error="who knows")
    again = desk.lease(lease.job_id)
    assert (again.epoch, again.attempt) == (run.epoch + 1, run.attempt)
    assert worker.claim(again).kind == "done"


def test_a_call_that_was_done_after_all_overrules_the_person(
    desk: Desk, worker: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    first = worker.claim(lease)
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    worker.claim(run)
    worker.end(run, "review", error="who knows")
    later(desk, worker)
    settle(desk, run.job_id, "failed")
    worker.outcome(lease, first, "failed")
    assert entry(desk).settled_by == "ops"
    worker.outcome(lease, first, "done", '"sent"')
    assert (entry(desk).status, worker.claim(desk.lease(run.job_id)).kind) == ("done", "done")
    assert entry(desk).settled_by is None, "its run told it after all"


def test_a_settled_effect_of_a_replay_in_the_old_scope_lets_the_replay_go_on(
    desk: Desk, worker: ScriptedWorker
) -> None:
    old = in_review(desk, worker)
    desk.replay("job_new", old.job_id)
    run = desk.lease("job_new")
    assert worker.claim(run).kind == "review"
    worker.end(run, "review", error="who knows")
    later(desk, worker)
    settle(desk, old.job_id, "done")
    assert [letter.reason for letter in refusals(desk)] == ["not_in_review"]
    settle(desk, "job_new", "done")
    assert worker.claim(desk.lease("job_new")).kind == "done"


@pytest.mark.parametrize("told", [True, False])
def test_what_the_last_attempt_leaves_unknown_a_person_decides(desk: Desk, told: bool) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    claim = worker.claim(run)
    if told:
        worker.outcome(run, claim, "unknown")
    worker.end(run, "retry", error="TimeoutError: no answer")
    job = desk.job(run.job_id)
    assert (job.status, entry(desk).status) == ("needs_review", "review")
    asks = f"the outcome of effect {EFFECT} is unknown"
    assert job.last_error == f"TimeoutError: no answer; {asks}"
    later(desk, worker)
    settle(desk, run.job_id, "done", result='"m1"')
    worker.heartbeat()
    assert worker.claim(desk.lease(run.job_id)).result == '"m1"'


def test_what_a_replay_may_repeat_under_its_key_needs_no_decision(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    worker.outcome(run, worker.claim(run, lifetime_ms=86_400_000), "unknown")
    worker.end(run, "retry", error="TimeoutError: no answer")
    dead = desk.job(run.job_id)
    assert (dead.status, entry(desk).status) == ("dead", "unknown")
    assert (dead.last_error or "").startswith(
        f"TimeoutError: no answer; the outcome of effect {EFFECT} is unknown: a replay before "
    )
    assert "calls the tool under the same key; or settle the effect" in (dead.last_error or "")
    desk.replay("job_new", run.job_id)
    reply = worker.claim(desk.lease("job_new"), lifetime_ms=86_400_000)
    assert (reply.kind, reply.repeat) == ("granted", True)
    assert reply.idempotency_key == entry(desk).idempotency_key


@pytest.mark.parametrize("lifetime_ms", [86_400_000, 2**53])
@pytest.mark.parametrize(
    ("status", "claimed"), [("done", ("done", False)), ("failed", ("granted", False))]
)
def test_an_effect_of_a_job_that_has_ended_is_settled_for_its_replay(
    desk: Desk, status: str, claimed: tuple[str, bool], lifetime_ms: int
) -> None:
    """The tool had acted on a call that timed out each time; nobody could say so."""
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    worker.outcome(run, worker.claim(run, lifetime_ms=lifetime_ms), "unknown")
    worker.end(run, "retry", error="TimeoutError: no answer")
    settle(desk, run.job_id, status)
    assert [letter.reason for letter in refusals(desk)] == ["too_early"]
    later(desk, worker)
    settle(desk, run.job_id, status)
    known = entry(desk)
    assert (known.status, known.settled_by, known.note) == (status, "ops", "asked the vendor")
    assert desk.job(run.job_id).status == "dead", "its replay is a decision of its own"
    desk.replay("job_new", run.job_id)
    reply = worker.claim(desk.lease("job_new"), lifetime_ms=lifetime_ms)
    assert (reply.kind, reply.repeat) == claimed


def test_an_effect_is_not_settled_while_a_replay_of_its_ended_job_lives(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    worker.outcome(run, worker.claim(run, lifetime_ms=86_400_000), "unknown")
    worker.end(run, "retry", error="TimeoutError: no answer")
    desk.replay("job_new", run.job_id)
    worker.heartbeat(desk.lease("job_new"))
    settle(desk, run.job_id, "failed", at=desk.driver.now + PATIENCE * 1000)
    (letter,) = refusals(desk)
    assert (letter.reason, "job_new of its scope is running" in letter.detail) == (
        "not_in_review",
        True,
    )
    assert entry(desk).status == "unknown"


@pytest.mark.parametrize("status", ["failed", "done"])
def test_what_is_told_late_of_the_last_attempt_makes_no_other(desk: Desk, status: str) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    claim = worker.claim(run)
    worker.end(run, "retry", error="TransientError: another call failed")
    assert desk.job(run.job_id).status == "needs_review"
    worker.outcome(run, claim, status)
    job = desk.job(run.job_id)
    assert (job.status, job.end_reason) == ("dead", "attempts_exhausted")
    assert job.last_error == "TransientError: another call failed"
    assert desk.lease(run.job_id) == run
    assert [letter.reason for letter in desk.dead_letters()] == ["attempts_exhausted"]


def test_a_settled_job_whose_attempts_are_over_has_one_more(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    worker.claim(run)
    worker.end(run, "retry", error="TimeoutError: no answer")
    assert desk.job(run.job_id).end_reason == "attempts_exhausted"
    asks = f"TimeoutError: no answer; the outcome of effect {EFFECT} is unknown"
    assert desk.job(run.job_id).last_error == asks
    later(desk, worker)
    settle(desk, run.job_id, "failed")
    again = desk.lease(run.job_id)
    assert (again.attempt, desk.job(run.job_id).end_reason) == (1, None)
    assert desk.job(run.job_id).last_error == "TimeoutError: no answer"
    worker.claim(again)
    worker.end(again, "retry", error="TimeoutError: no answer")
    desk.cancel(run.job_id)
    assert (desk.job(run.job_id).status, desk.job(run.job_id).end_reason) == ("cancelled", None)


def test_what_an_attempt_before_the_last_left_unknown_a_person_decides_too(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=2, backoff=())
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    worker.claim(run)
    worker.end(run, "retry", error="TransientError: x")
    last = desk.lease(run.job_id)
    worker.end(last, "retry", error="TransientError: before its effect")
    assert (desk.job(run.job_id).status, entry(desk).status) == ("needs_review", "review")


def test_what_was_in_review_for_an_earlier_job_of_the_scope_stays_to_be_decided(
    desk: Desk,
) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    old = desk.lease(desk.event("t1"))
    worker.claim(old)
    worker.end(old, "retry", error="TransientError: x")
    desk.replay("job_new", old.job_id)
    worker.end(desk.lease("job_new"), "retry", error="TransientError: before its effect")
    assert desk.job("job_new").status == "needs_review"
    later(desk, worker)
    settle(desk, "job_new", "done")
    assert worker.claim(desk.lease("job_new")).kind == "done"
