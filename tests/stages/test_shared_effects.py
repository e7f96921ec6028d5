"""Effects that count beyond their job: one for all jobs of a tenant that name the same key."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatching import DIGEST, Desk, ScriptedWorker

from streams.dispatcher import review
from streams.serde.records import Claim, DeadLetter, Lease, LedgerEntry, Outcome, Reply, Settle

EFFECT = "email:send/reply"
DAY_MS = 86_400_000
KEEP_MS = 90 * DAY_MS
PATIENCE = 301
"""Seconds after which no call of the handlers, whose timeout is 300 s, can be under way."""


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    return worker


def job(desk: Desk, key: str, tenant: str = "acme") -> Lease:
    return desk.lease(desk.event(key, tenant))


def claim(worker: ScriptedWorker, lease: Lease, once_per: str = "tenant", **fields: Any) -> Reply:
    return worker.claim(lease, once_per=once_per, **{"keep_ms": KEEP_MS, **fields})


def outcome(
    worker: ScriptedWorker,
    lease: Lease,
    reply: Reply,
    status: Any,
    result: str | None = None,
    once_per: str = "tenant",
) -> None:
    worker.outcome(lease, reply, status, result, once_per=once_per)


def shared(desk: Desk) -> list[LedgerEntry]:
    """The shared entries of the store."""
    store = desk.driver.store("dispatcher", "ledger")
    kept = {key for key, _ in store.range(b"", b"\xff")}
    found = {(e.tenant_id, e.scope, e.action): e for e in desk.ledger() if e.scope[0] == "@"}
    return [e for name, e in found.items() if "\0".join(name).encode() in kept]


def next_run(desk: Desk, worker: ScriptedWorker, lease: Lease) -> Lease:
    worker.end(lease, "retry", error="TransientError: x")
    return desk.lease(lease.job_id)


def in_review(desk: Desk, worker: ScriptedWorker, lease: Lease) -> Lease:
    assert claim(worker, lease).kind == "review"
    worker.end(lease, "review", error="who knows")
    assert desk.job(lease.job_id).status == "needs_review"
    return lease


def settle(desk: Desk, job_id: str, status: Any, *, tenant: str = "acme", **fields: Any) -> None:
    told = {"action": EFFECT, "result": None, "note": "asked", "submitted_by": "ops"}
    body = Settle(status=status, **{**told, "once_per": "tenant", **fields})
    desk.command(body, job_id, tenant=tenant)


def refusals(desk: Desk) -> list[DeadLetter]:
    return [letter for letter in desk.dead_letters() if letter.kind == "record"]


def later(desk: Desk, worker: ScriptedWorker, seconds: float = PATIENCE) -> None:
    desk.driver.advance(seconds)
    worker.heartbeat()


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
    other = ScriptedWorker(desk, "w2/b1", partition=4)
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    claim(worker, second)
    worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    worker.leave()  # the process is gone, and says nothing of its call
    other.heartbeat()
    other.stay(16)
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


def test_a_replay_in_a_fresh_scope_gets_the_shared_result(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first = job(desk, "t1")
    outcome(worker, first, claim(worker, first), "done", "1")
    worker.end(first, "failed", error="PermanentError: x")
    desk.replay("job_fresh", first.job_id, fresh_scope=True)
    assert refusals(desk) == [], "a fresh scope repeats no shared effect"
    assert claim(worker, desk.lease("job_fresh")).result == "1"


def test_a_known_effect_is_purged_by_its_keep_and_not_with_its_job(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first = job(desk, "t1")
    granted = claim(worker, first)
    outcome(worker, first, granted, "done", "1")
    worker.end(first, "succeeded")
    finished = desk.topology.finished_jobs_ms
    assert finished < KEEP_MS
    desk.driver.advance(finished / 1000 + 1)
    desk.driver.advance(1)
    store = desk.driver.store("dispatcher", "ledger")
    assert len(list(store.range(b"", b"\xff"))) == 1, "the job's note went with the job"
    worker.heartbeat()
    second = job(desk, "t2")
    assert claim(worker, second).kind == "done"
    worker.end(second, "succeeded")
    desk.driver.advance((KEEP_MS - finished) / 1000)
    desk.driver.advance(1)
    assert shared(desk) == []
    worker.heartbeat()
    third = claim(worker, job(desk, "t3"))
    assert (third.kind, third.idempotency_key) == ("granted", granted.idempotency_key)
    assert list(desk.driver.store("dispatcher", "parts").range(b"v", b"w")) == []


def test_a_job_that_lives_longer_than_keep_keeps_its_result(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    outcome(worker, first, claim(worker, first, keep_ms=60_000), "done", "1")
    assert claim(worker, second, keep_ms=60_000).kind == "done"
    worker.stay(90, first, second)
    assert shared(desk) == []
    for lease in (first, second):
        assert claim(worker, lease, keep_ms=60_000).result == "1"
        assert claim(worker, lease, keep_ms=60_000, digest=b"e" * 32).kind == "refused"
    assert claim(worker, job(desk, "t3"), keep_ms=60_000).kind == "granted"


def test_an_unknown_effect_stays_until_somebody_has_settled_it(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first = job(desk, "t1")
    claim(worker, first, keep_ms=60_000)
    worker.end(first, "failed", error="PermanentError: x")
    desk.driver.advance(3 * desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)
    assert [entry.status for entry in shared(desk)] == ["claimed"]
    settle(desk, first.job_id, "done")
    assert [entry.status for entry in shared(desk)] == ["done"], "its job is forgotten"
    for _ in range(3):
        desk.driver.advance(DAY_MS / 1000)
    assert shared(desk) == []


def test_a_forgotten_jobs_late_outcome_is_still_the_truth(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first = job(desk, "t1")
    granted = claim(worker, first)
    worker.end(first, "failed", error="PermanentError: x")
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 1)
    desk.driver.advance(1)
    worker.heartbeat()
    second = in_review(desk, worker, job(desk, "t2"))
    outcome(worker, first, granted, "done", "1")
    assert claim(worker, desk.lease(second.job_id)).result == "1"


def test_an_erased_tenants_shared_effects_go_with_its_jobs(
    desk: Desk, worker: ScriptedWorker
) -> None:
    ours, theirs = job(desk, "t1"), job(desk, "t1", "globex")
    outcome(worker, ours, claim(worker, ours), "done", "1")
    claim(worker, theirs)
    unknown = job(desk, "t2")
    claim(worker, unknown, "refunds")
    desk.tenant("acme", "erasure")
    assert claim(worker, ours, "invoices").kind == "cancel"
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 1)
    desk.driver.advance(1)
    assert [entry.tenant_id for entry in shared(desk)] == ["globex"]


def test_state_survives_a_takeover(desk: Desk, worker: ScriptedWorker) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    in_review(desk, worker, next_run(desk, worker, first))
    in_review(desk, worker, second)
    desk.driver.restart("dispatcher", keep_state=False)
    desk.driver.advance(PATIENCE)
    worker.heartbeat()
    settle(desk, first.job_id, "done", result="1")
    assert claim(worker, desk.lease(second.job_id)).result == "1"
    desk.driver.restart("dispatcher", keep_state=False)
    desk.driver.advance(KEEP_MS / 1000 + 1)
    desk.driver.advance(1)
    assert shared(desk) == []


def test_a_job_whose_outcome_came_second_keeps_the_result_too(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """Its own call under the same key ended after another job's had been recorded."""
    first, second = job(desk, "t1"), job(desk, "t2")
    short: dict[str, Any] = {"keep_ms": 60_000, "lifetime_ms": DAY_MS}
    granted = claim(worker, first, **short)
    outcome(worker, first, granted, "unknown")
    repeat = claim(worker, second, **short)
    outcome(worker, first, granted, "done", '"late"')
    outcome(worker, second, repeat, "done", '"mine"')
    worker.stay(90, first, second)
    assert shared(desk) == []
    assert [claim(worker, each, **short).result for each in (first, second)] == ['"late"'] * 2


def test_nothing_is_left_of_an_erased_tenant_in_the_store(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    claim(worker, first)
    in_review(desk, worker, next_run(desk, worker, first))
    in_review(desk, worker, second)
    parts = desk.driver.store("dispatcher", "parts")
    assert len(list(parts.range(b"v", b"w"))) == 2
    desk.tenant("acme", "erasure")
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 1)
    desk.driver.advance(1)
    assert list(parts.range(b"v", b"w")) == []
    assert shared(desk) == []
    desk.driver.advance(KEEP_MS / 1000)
    desk.driver.advance(1)
    left = {key[:1] for key, _ in parts.range(b"", b"\xff")}
    assert left & {b"e", b"E", b"v", b"D"} == set()


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


def test_its_time_counts_from_its_outcome(desk: Desk, worker: ScriptedWorker) -> None:
    first = job(desk, "t1")
    granted = claim(worker, first, keep_ms=600_000)
    worker.stay(500, first)
    outcome(worker, first, granted, "done", "1")
    worker.stay(590, first)
    assert [entry.status for entry in shared(desk)] == ["done"]
    worker.stay(20, first)
    assert shared(desk) == []


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
        again = Claim(worker.name, 3, "clm_2", first.run_id, EFFECT, DIGEST, 0, "tenant", KEEP_MS)
        desk.command(again, first.job_id, first.epoch)
    begun = len(desk.leases())
    desk.driver.advance(0.9)
    assert shared(desk)[0].status == "claimed"
    assert len(desk.leases()) == begun
    assert sum(desk.job(lease.job_id).status == "scheduled" for lease in others) == 15
