"""The ledger: an effect is begun at most once, or repeated under the key its tool honours."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.step_results import values_of

from streams.serde.records import Lease

DAY_MS = 86_400_000


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    return worker


@pytest.fixture
def lease(desk: Desk, worker: ScriptedWorker) -> Lease:
    return desk.lease(desk.event("t1"))


def next_run(desk: Desk, worker: ScriptedWorker, lease: Lease) -> Lease:
    worker.end(lease, "retry", error="TransientError: x")
    return desk.lease(lease.job_id)


def test_the_first_claim_is_granted_with_a_stable_key(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    reply = worker.claim(lease)
    assert (reply.kind, reply.repeat) == ("granted", False)
    assert reply.idempotency_key.startswith("idk_")
    assert [to for to, one in desk.all_replies() if one.kind == "granted"] == ["w1/b1"]
    (entry,) = desk.ledger()
    assert (entry.status, entry.claims, entry.run_id) == ("claimed", 1, lease.run_id)


def test_a_repeated_question_gets_the_same_answer(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    first = worker.claim(lease, claim_id="clm_1")
    again = worker.claim(lease, claim_id="clm_1")
    assert first == again
    assert len(desk.ledger()) == 1


def test_another_call_under_way_under_the_same_key_is_held(
    worker: ScriptedWorker, lease: Lease
) -> None:
    worker.claim(lease)
    assert worker.claim(lease).kind == "held"
    assert worker.claim(lease, "email:send/other").kind == "granted"


def test_a_done_effect_answers_its_result_in_this_run_and_the_next(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    worker.outcome(lease, worker.claim(lease), "done", '{"id":7}')
    again = worker.claim(lease)
    assert (again.kind, again.result) == ("done", '{"id":7}')
    later = worker.claim(next_run(desk, worker, lease))
    assert (later.kind, later.result) == ("done", '{"id":7}')


def test_other_arguments_under_the_same_key_are_refused(
    worker: ScriptedWorker, lease: Lease
) -> None:
    worker.claim(lease)
    reply = worker.claim(lease, digest=b"e" * 32)
    assert reply.kind == "refused"
    assert "email:send/reply" in reply.message


def test_what_was_not_done_may_be_tried_with_other_arguments(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    worker.outcome(lease, worker.claim(lease), "failed")
    assert worker.claim(lease, digest=b"e" * 32).kind == "granted"
    assert desk.ledger()[-1].digest == b"e" * 32


def test_what_the_tool_said_was_not_done_may_be_tried_again(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    first = worker.claim(lease)
    worker.outcome(lease, first, "failed")
    second = worker.claim(lease, claim_id="clm_2")
    assert (second.kind, second.repeat) == ("granted", False)
    assert worker.claim(lease, claim_id="clm_2") == second
    assert second.idempotency_key == first.idempotency_key


@pytest.mark.parametrize("ending", ["unknown", "silence"])
def test_an_unknown_outcome_is_repeated_under_the_same_key_where_it_is_honoured(
    desk: Desk, worker: ScriptedWorker, lease: Lease, ending: Any
) -> None:
    first = worker.claim(lease, lifetime_ms=DAY_MS)
    if ending == "unknown":
        worker.outcome(lease, first, "unknown")
    second = worker.claim(next_run(desk, worker, lease), lifetime_ms=DAY_MS)
    assert (second.kind, second.repeat) == ("granted", True)
    assert second.idempotency_key == first.idempotency_key


@pytest.mark.parametrize("ending", ["unknown", "silence"])
def test_an_unknown_outcome_of_a_keyless_tool_waits_for_a_person(
    desk: Desk, worker: ScriptedWorker, lease: Lease, ending: Any
) -> None:
    first = worker.claim(lease)
    if ending == "unknown":
        worker.outcome(lease, first, "unknown")
    run = next_run(desk, worker, lease)
    reply = worker.claim(run)
    assert reply.kind == "review"
    assert desk.ledger()[-1].status == "review"
    worker.end(run, "review", error=reply.message)
    assert desk.job(lease.job_id).status == "needs_review"


def test_past_its_lifetime_a_key_protects_no_more(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    worker.claim(lease, lifetime_ms=300_000)
    run = next_run(desk, worker, lease)
    assert worker.claim(run, lifetime_ms=300_000).repeat
    worker.end(run, "retry", after=250, error="TransientError: x")
    desk.driver.advance(276)
    worker.heartbeat()
    late = worker.claim(desk.lease(lease.job_id), lifetime_ms=300_000)
    assert late.kind == "review", "it would reach its tool too close to the end"


def test_the_truth_of_a_run_that_is_over_still_counts(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    first = worker.claim(lease)
    run = next_run(desk, worker, lease)
    worker.outcome(lease, first, "done", '"sent"')
    assert (worker.claim(run).kind, desk.ledger()[-1].result) == ("done", '"sent"')


def test_a_late_outcome_does_not_settle_a_later_claim(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    first = worker.claim(lease, lifetime_ms=DAY_MS)
    run = next_run(desk, worker, lease)
    worker.claim(run, lifetime_ms=DAY_MS)
    worker.outcome(lease, first, "failed")
    assert desk.ledger()[-1].status == "claimed"


def test_a_run_that_is_over_may_begin_nothing(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    next_run(desk, worker, lease)
    assert worker.claim(lease).kind == "lost"
    assert desk.ledger() == []


def test_a_replay_in_the_old_scope_repeats_nothing_a_fresh_one_does_all(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    first = worker.claim(lease)
    worker.outcome(lease, first, "done", "1")
    worker.step(lease, "draft", '"hello"')
    worker.end(lease, "failed", error="PermanentError: x")
    desk.replay("job_same", lease.job_id)
    desk.replay(
        "job_fresh",
        lease.job_id,
        fresh_scope=True,
        again=True,
        repeat_effects=("email:send/reply",),
    )
    assert values_of(desk.lease("job_same").steps) == {"draft": '"hello"'}
    assert values_of(desk.lease("job_fresh").steps) == {}
    assert worker.claim(desk.lease("job_same")).kind == "done"
    fresh = worker.claim(desk.lease("job_fresh"))
    assert fresh.kind == "granted"
    assert fresh.idempotency_key != first.idempotency_key


def test_a_replay_keeps_its_scopes_entries_past_the_purge_of_its_original(
    desk: Desk, worker: ScriptedWorker, lease: Lease
) -> None:
    worker.outcome(lease, worker.claim(lease), "done", "1")
    worker.end(lease, "failed", error="PermanentError: x")
    keep = desk.topology.finished_jobs_ms / 1000
    desk.driver.advance(keep / 2)
    desk.replay("job_same", lease.job_id)
    worker.heartbeat()
    desk.driver.advance(keep / 2)
    desk.driver.advance(1)
    ledger = desk.driver.store("dispatcher", "ledger")
    assert len(list(ledger.range(b"", b"\xff"))) == 1
    worker.heartbeat()
    assert worker.claim(desk.lease("job_same")).kind == "done"
    worker.end(desk.lease("job_same"), "succeeded")
    desk.driver.advance(keep)
    desk.driver.advance(1)
    assert list(ledger.range(b"", b"\xff")) == []
