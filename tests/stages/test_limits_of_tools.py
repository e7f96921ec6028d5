"""Limits of the scope `tool`: how many calls of a tool are under way, and begin in a time."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.shared_effects import EFFECT
from support.shared_effects import claim as claim_shared

from streams.serde.records import Lease, Reply
from streams.topology.limits import Limit, Rate
from streams.topology.model import ApprovalRule

MAILS = Limit("mails", "tool", "email:*", concurrency=1, shared=False)
TOOL = '["email:send",null]'


def started(*limits: Limit, jobs: int = 2) -> tuple[Desk, ScriptedWorker, list[Lease]]:
    """Jobs that run, of events `t1`, `t2` and so on."""
    desk = Desk(*limits)
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    return desk, worker, [desk.lease(desk.event(f"t{number}")) for number in range(1, jobs + 1)]


def kinds(worker: ScriptedWorker, *leases: Lease) -> list[str]:
    return [worker.claim(lease).kind for lease in leases]


def wait(worker: ScriptedWorker, lease: Lease, result: str = TOOL) -> Reply:
    """End a run whose call found no room."""
    reply = worker.claim(lease)
    assert reply.kind == "full"
    worker.end(lease, "full", result=result, error=reply.message)
    return reply


def status(desk: Desk, lease: Lease) -> tuple[str, int]:
    """The state of a job, and its attempts."""
    job = desk.job(lease.job_id)
    return job.status, job.attempts


def test_a_call_over_the_cap_waits_without_a_slot_or_an_attempt() -> None:
    desk, worker, (first, second) = started(MAILS)
    granted = worker.claim(first)
    refused = wait(worker, second)
    assert "'mails'" in refused.message
    worker.stay(60, first)
    assert (granted.kind, status(desk, second)) == ("granted", ("pending", 0))
    assert desk.lease(second.job_id) == second
    worker.outcome(first, granted, "done", "1")
    again = desk.lease(second.job_id)
    assert (again.epoch, again.attempt) == (second.epoch + 1, 1)
    assert worker.claim(again).kind == "granted"


def test_a_job_that_waited_has_its_place_from_its_start() -> None:
    desk, worker, (first, second, third) = started(MAILS, jobs=3)
    granted = worker.claim(first)
    wait(worker, second)
    worker.outcome(first, granted, "done")
    again = desk.lease(second.job_id)
    assert worker.claim(third).kind == "full", "the place is the second job's"
    assert worker.claim(again).kind == "granted"


def test_a_job_whose_lease_was_refused_still_has_its_place_from_its_start() -> None:
    desk, worker, (first, second, third) = started(MAILS, jobs=3)
    granted = worker.claim(first)
    wait(worker, second)
    worker.outcome(first, granted, "done")
    refused = desk.lease(second.job_id)
    worker.decline(refused)
    worker.heartbeat(third)
    assert desk.lease(second.job_id).epoch == refused.epoch + 1
    assert worker.claim(third).kind == "full"
    assert worker.claim(desk.lease(second.job_id)).kind == "granted"


def test_jobs_that_wait_come_before_calls_that_have_not_waited() -> None:
    desk, worker, (first, second, third) = started(MAILS, jobs=3)
    granted = worker.claim(first)
    wait(worker, second)
    with desk.held_back():
        worker.outcome(first, granted, "done")
        worker.claim(third)
    assert worker.claim(third).kind == "full"
    assert desk.lease(second.job_id).epoch == second.epoch + 1


def test_a_claim_that_is_repeated_counts_once() -> None:
    _, worker, (first, second, third) = started(
        Limit("mails", "tool", "*", concurrency=2, shared=False), jobs=3
    )
    again = {worker.claim(first, claim_id="clm_1").kind for _ in range(3)}
    assert (again, kinds(worker, second, third)) == ({"granted"}, ["granted", "full"])


def test_calls_of_one_job_at_the_same_time_count_each() -> None:
    desk, worker, (first, second) = started(
        Limit("mails", "tool", "*", concurrency=2, shared=False)
    )
    one = worker.claim(first, "email:send/one")
    assert worker.claim(first, "email:send/two").kind == "granted"
    assert worker.claim(first, "email:send/three").kind == "full"
    worker.outcome(first, one, "failed", action="email:send/one")
    assert worker.claim(second).kind == "granted"
    assert worker.claim(first, "email:send/three").kind == "full"
    assert len(desk.job(first.job_id).limit_keys) == 1


@pytest.mark.parametrize("told", ["done", "failed", "unknown"])
def test_a_call_that_has_ended_holds_no_place_though_its_run_goes_on(told: Any) -> None:
    desk, worker, (first, second) = started(MAILS)
    worker.outcome(first, worker.claim(first), told)
    assert worker.claim(second).kind == "granted"
    assert status(desk, first) == ("running", 1)


def test_a_result_from_the_ledger_needs_no_place() -> None:
    _, worker, (first, second) = started(MAILS)
    worker.outcome(first, worker.claim(first), "done", "1")
    assert kinds(worker, second, first) == ["granted", "done"]


@pytest.mark.parametrize(
    "end", [("retry", None), ("review", "who knows"), ("released", None), ("cancelled", None)]
)
def test_the_end_of_a_lease_gives_the_places_of_its_calls_back(end: tuple[Any, Any]) -> None:
    desk, worker, (first, second) = started(MAILS)
    worker.claim(first)
    wait(worker, second)
    worker.end(first, end[0], error=end[1], after=3600)
    assert desk.lease(second.job_id).epoch == second.epoch + 1
    assert not desk.job(first.job_id).limit_keys


def test_a_worker_that_is_gone_holds_no_place() -> None:
    desk, worker, (first, second) = started(MAILS)
    worker.claim(first)
    wait(worker, second)
    worker.leave()
    other = ScriptedWorker(desk, "w2/b1")
    other.stay(31)
    assert other.claim(desk.lease(second.job_id)).kind == "granted"


def test_a_late_outcome_of_a_lost_run_frees_nothing_of_the_next_run() -> None:
    desk, worker, (first, second) = started(MAILS)
    lost = worker.claim(first, lifetime_ms=3_600_000)
    worker.end(first, "retry", error="TimeoutError")
    again = desk.lease(first.job_id)
    assert worker.claim(again, lifetime_ms=3_600_000).kind == "granted"
    worker.outcome(first, lost, "unknown")
    assert worker.claim(second).kind == "full"


def test_an_effect_that_another_job_makes_needs_no_place() -> None:
    desk, worker, (first, second, third) = started(
        Limit("mails", "tool", "*", concurrency=2, shared=False), jobs=3
    )
    assert claim_shared(worker, first).kind == "granted"
    assert claim_shared(worker, second).kind == "busy"
    worker.end(second, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
    assert worker.claim(third).kind == "granted"
    assert not desk.job(second.job_id).limit_keys


def test_an_effect_that_people_have_to_approve_has_no_place() -> None:
    desk, worker, (first, second) = started(MAILS)
    desk.deploy(approvals=(ApprovalRule("email:*", job_type="draft_reply"),))
    desk.driver.advance(0.5)
    worker.heartbeat(first, second)
    assert kinds(worker, first, second) == ["approval", "approval"]
    assert not desk.job(first.job_id).limit_keys


def test_the_places_are_as_they_were_after_a_restart() -> None:
    desk, worker, (first, second, third) = started(MAILS, jobs=3)
    granted = worker.claim(first)
    wait(worker, second)
    desk.driver.restart("dispatcher", keep_state=False)
    desk.driver.advance(0.5)
    worker.heartbeat(first, third)
    assert worker.claim(third).kind == "full"
    assert status(desk, second) == ("pending", 0)
    worker.outcome(first, granted, "done")
    assert worker.claim(desk.lease(second.job_id)).kind == "granted"


def test_a_claim_that_was_undone_and_comes_again_counts_once() -> None:
    desk, worker, (first, second, third) = started(
        Limit("mails", "tool", "*", concurrency=2, shared=False), jobs=3
    )
    worker.claim(second)
    with desk.held_back():
        worker.claim(first)  # nobody reads its answer
        desk.abort()
    assert worker.claim(third).kind == "full"
    desk.cancel(second.job_id)
    worker.end(second, "cancelled")
    assert worker.claim(third).kind == "granted"


def test_a_token_of_a_rate_is_spent_by_each_call_and_once_by_one_that_waited() -> None:
    desk, worker, (first, second, third) = started(
        Limit("slowly", "tool", "email:*", rate=Rate(1, 60), shared=False), jobs=3
    )
    worker.outcome(first, worker.claim(first), "done")
    wait(worker, second)
    worker.stay(58, third)
    assert status(desk, second) == ("pending", 0)
    worker.stay(5, third)
    again = desk.lease(second.job_id)
    assert again.epoch == second.epoch + 1
    worker.outcome(again, worker.claim(again), "done")
    assert worker.claim(third).kind == "full"
    worker.stay(58, third, again)
    assert worker.claim(third).kind == "granted", "one token was spent, and not two"


def test_each_tenant_has_a_cap_of_its_own_and_each_tool_its_bucket() -> None:
    desk = Desk(Limit("each", "tool", "*", per="tenant", concurrency=1))
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    ours, more, theirs = (
        desk.lease(desk.event(key, tenant))
        for key, tenant in (("t1", "acme"), ("t2", "acme"), ("t1", "globex"))
    )
    assert kinds(worker, ours, theirs, more) == ["granted", "granted", "full"]
    assert worker.claim(more, "crm:note/a").kind == "granted"


def test_several_limits_of_a_tool_and_a_model_hold_one_call() -> None:
    desk, worker, (first, second, third) = started(
        MAILS, Limit("gpt", "model", "gpt-*", concurrency=1, shared=False), jobs=3
    )
    note = worker.claim(first, "crm:note/a", model="gpt-x")
    assert worker.claim(second, model="gpt-x").kind == "full"
    worker.end(second, "full", result='["email:send","gpt-x"]')
    assert worker.claim(third).kind == "granted", "the second took none of its two places"
    worker.outcome(first, note, "done", action="crm:note/a")
    assert status(desk, second) == ("pending", 0)
    worker.end(third, "succeeded")
    assert worker.claim(desk.lease(second.job_id), model="gpt-x").kind == "granted"


def test_a_job_that_waited_for_a_limit_that_is_gone_goes_on() -> None:
    desk, worker, (first, second) = started(MAILS)
    worker.claim(first)
    wait(worker, second)
    desk.deploy(limits=())
    desk.driver.advance(0.5)
    worker.heartbeat(first)
    assert worker.claim(desk.lease(second.job_id)).kind == "granted"


@pytest.mark.parametrize("result", [None, "null", "[1,2]", '["email:send"]', "{}", "nonsense"])
def test_a_run_that_ends_full_and_names_no_call_goes_on(result: str | None) -> None:
    desk, worker, (first, _) = started(MAILS)
    worker.end(first, "full", result=result, error="x")
    assert desk.lease(first.job_id).epoch == first.epoch + 1


def test_a_job_that_is_cancelled_while_it_waits_ends() -> None:
    desk, worker, (first, second, third) = started(MAILS, jobs=3)
    granted = worker.claim(first)
    wait(worker, second)
    desk.cancel(second.job_id)
    assert desk.job(second.job_id).status == "cancelled"
    worker.outcome(first, granted, "done")
    assert worker.claim(third).kind == "granted"


def test_a_job_that_begins_anew_has_no_places_of_its_former_life() -> None:
    desk, worker, (first, second) = started(MAILS)
    worker.claim(first)
    worker.end(first, "continued", result="{}")
    assert not desk.job(first.job_id).limit_keys
    assert worker.claim(second).kind == "granted"
