"""How long an effect is kept that counts beyond its job."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.shared_effects import (
    DAY_MS,
    KEEP_MS,
    PATIENCE,
    claim,
    in_review,
    job,
    next_run,
    outcome,
    settle,
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


def test_its_time_counts_from_its_outcome(desk: Desk, worker: ScriptedWorker) -> None:
    first = job(desk, "t1")
    granted = claim(worker, first, keep_ms=600_000)
    worker.stay(500, first)
    outcome(worker, first, granted, "done", "1")
    worker.stay(590, first)
    assert [entry.status for entry in shared(desk)] == ["done"]
    worker.stay(20, first)
    assert shared(desk) == []


@pytest.mark.parametrize(("before", "now"), [(KEEP_MS, 60_000), (60_000, KEEP_MS)])
def test_a_changed_keep_concerns_the_effects_that_are_begun_from_then_on(
    desk: Desk, worker: ScriptedWorker, before: int, now: int
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    outcome(worker, first, claim(worker, first, keep_ms=before), "done", "1")
    assert claim(worker, second, keep_ms=now).result == "1"
    worker.stay(70, first, second)
    assert len(shared(desk)) == (before == KEEP_MS)


def test_one_that_is_begun_again_is_kept_for_the_longer_time(
    desk: Desk, worker: ScriptedWorker
) -> None:
    first, second = job(desk, "t1"), job(desk, "t2")
    outcome(worker, first, claim(worker, first, keep_ms=60_000), "failed")
    outcome(worker, second, claim(worker, second, keep_ms=200_000), "done", "1")
    worker.stay(150, first, second)
    assert [entry.status for entry in shared(desk)] == ["done"]
    worker.stay(60, first, second)
    assert shared(desk) == []


@pytest.mark.parametrize("keep_ms", [-(2**53), -1, 0, 2**53])
def test_an_absurd_time_costs_nobody_anything(
    desk: Desk, worker: ScriptedWorker, keep_ms: int
) -> None:
    first = job(desk, "t1")
    outcome(worker, first, claim(worker, first, keep_ms=keep_ms), "done", "1")
    worker.stay(10, first)
    assert len(shared(desk)) == (keep_ms > 0)
    assert claim(worker, first, keep_ms=keep_ms).result == "1"
