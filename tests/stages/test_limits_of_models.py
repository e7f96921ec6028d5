"""Limits of the scope `model`: steps and effects that call it have a place until they end."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.records import Lease
from streams.topology.limits import Limit, Rate

ONE = Limit("gpt", "model", "gpt-*", concurrency=1, shared=False)
MODEL = '[null,"gpt-x"]'


def started(*limits: Limit, jobs: int = 2) -> tuple[Desk, ScriptedWorker, list[Lease]]:
    desk = Desk(*limits)
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    return desk, worker, [desk.lease(desk.event(f"t{number}")) for number in range(1, jobs + 1)]


def wait(worker: ScriptedWorker, lease: Lease) -> None:
    reply = worker.claim_step(lease, "gpt-x")
    assert (reply.kind, "'gpt'" in reply.message) == ("full", True)
    worker.end(lease, "full", result=MODEL, error=reply.message)


@pytest.mark.parametrize("how", ["its value is kept", "it fails", "its run ends"])
def test_a_step_has_its_place_until_it_ends(how: str) -> None:
    desk, worker, (first, second) = started(ONE)
    claim = worker.claim_step(first, "gpt-x")
    wait(worker, second)
    waiting = desk.job(second.job_id)
    assert (claim.kind, waiting.status, waiting.attempts) == ("granted", "pending", 0)
    match how:
        case "its value is kept":
            worker.step(first, "draft", '"text"', claim.claim_id)
        case "it fails":
            worker.step_failed(first, claim.claim_id)
        case _:
            worker.end(first, "retry", error="TransientError: x", after=60)
    again = desk.lease(second.job_id)
    assert (again.epoch, again.attempt) == (second.epoch + 1, 1)
    assert worker.claim_step(again, "gpt-x").kind == "granted"


def test_a_claim_that_is_repeated_counts_once() -> None:
    _, worker, (first, second) = started(Limit("gpt", "model", "*", concurrency=2, shared=False))
    kinds = [worker.claim_step(first, "gpt-x", claim_id="clm_1").kind for _ in range(3)]
    assert worker.claim_step(second, "gpt-x").kind == "granted"
    assert (kinds, worker.claim_step(second, "gpt-x").kind) == (["granted"] * 3, "full")


def test_a_claim_of_a_rate_that_is_repeated_spends_one_token() -> None:
    _, worker, (first, second) = started(
        Limit("gpt", "model", "*", rate=Rate(1, 60), burst=2, shared=False)
    )
    kinds = [worker.claim_step(first, "gpt-x", claim_id="clm_1").kind for _ in range(3)]
    assert (kinds, worker.claim_step(second, "gpt-x").kind) == (["granted"] * 3, "granted")


def test_steps_and_effects_of_a_model_count_together_and_others_do_not() -> None:
    _, worker, (first, second) = started(ONE)
    claim = worker.claim(first, model="gpt-x")
    assert worker.claim_step(second, "gpt-x").kind == "full"
    assert worker.claim_step(second, "gpt-y").kind == "granted", "each model has a bucket"
    assert worker.claim_step(second, "claude").kind == "granted", "no limit matches it"
    worker.outcome(first, claim, "done")
    assert worker.claim_step(second, "gpt-x").kind == "granted"


def test_nothing_is_counted_without_a_limit() -> None:
    desk, worker, (first, _) = started()
    claim = worker.claim_step(first, "gpt-x")
    worker.step(first, "draft", '"text"', claim.claim_id)
    assert (claim.kind, desk.job(first.job_id).limit_keys) == ("granted", ())


@pytest.mark.parametrize(("name", "told"), [("other", "lost"), ("cancelled", "cancel")])
def test_a_run_that_is_over_or_cancelled_gets_no_place(name: str, told: Any) -> None:
    desk, worker, (first, second) = started(ONE)
    if name == "cancelled":
        desk.cancel(first.job_id)
    else:
        worker.end(first, "retry", after=60)
    assert worker.claim_step(first, "gpt-x").kind == told
    assert worker.claim_step(second, "gpt-x").kind == "granted"
