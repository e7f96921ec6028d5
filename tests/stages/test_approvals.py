"""Approvals: the first decision that is read counts, and the ledger compares what was approved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import get_args

import pytest
from support.asking import ACTION, EVIDENCE, HOUR_MS, Asker, digest
from support.dispatching import ROUTES
from support.waiter import event_wait

from streams import user_json
from streams.runtime.memory_broker import CrashPoint
from streams.serde.ids import approval_id
from streams.serde.records import Wait, WaitGroup
from streams.topology.model import ApprovalRule, Route


def test_a_decision_ends_the_wait_and_costs_no_attempt() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.decide(lease, id_)
    assert at.decision(lease) == {"approved": True, "by": "ann", "note": "noted", "edit": None}
    assert (at.approval().status, at.desk.job(lease.job_id).resumes) == ("approved", 1)
    assert at.claim(at.desk.lease(lease.job_id), 82_000).kind == "granted"


def test_a_decision_between_the_question_and_the_park_is_found() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    at.decide(lease, id_)
    at.park(lease, id_)
    assert at.decision(lease)["approved"]


@pytest.mark.parametrize(("again", "is_now"), [(True, "pending"), (False, "cancelled")])
def test_an_approval_that_no_task_awaits_any_more_is_withdrawn(again: bool, is_now: str) -> None:
    at, nap = Asker(), Wait("nap", "time", 1, b"s", group=1, timeout_ms=5_000)
    lease = at.job()
    id_ = at.ask(lease)
    at.park(lease, id_, nap)
    at.desk.driver.advance(6)
    lease = at.go_on(lease.job_id)
    waits = [dataclasses.replace(nap, id="nap#2", group=0)]
    if again:  # in a branch, since the code has changed
        waits.append(Wait("x/approval[refund]", "approval", 0, EVIDENCE, group=1, approval_id=id_))
    at.worker.end(lease, "parked", waits=tuple(waits))
    assert (at.status(lease), at.approval().status) == ("waiting", is_now)


def test_of_two_decisions_in_one_batch_the_first_counts() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    with at.desk.held_back():
        at.decide(lease, id_, approved=False, by="bob")
        at.decide(lease, id_, by="ann")
    assert (at.decision(lease)["by"], at.approval().status) == ("bob", "rejected")
    assert at.refusals() == ["already_decided"]
    assert "rejected by bob" in at.desk.dead_letters()[0].detail


def test_a_decision_that_is_read_twice_counts_once() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.decide(lease, id_)
    at.number -= 1
    at.decide(lease, id_)
    assert (len(at.approval().votes), at.status(lease), at.refusals()) == (1, "waiting", [])


def test_another_tenant_decides_nothing() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.decide(lease, id_, tenant="other")
    assert (at.refusals(), at.status(lease)) == (["approval_unknown"], "waiting")
    assert at.approval().status == "pending"


@pytest.mark.parametrize("on_timeout", ["reject", "raise"])
def test_a_decision_after_the_time_is_refused(on_timeout: str) -> None:
    at = Asker()
    lease, id_ = at.waiting(on_timeout=on_timeout)
    at.worker.stay(3_599)
    assert at.status(lease) == "waiting"
    at.worker.stay(2)
    at.decide(lease, id_)
    left = at.left(lease)
    assert at.refusals() == ["expired"]
    assert at.approval().status == "expired"
    if on_timeout == "raise":
        assert left.raises == "ApprovalExpired"
    else:
        told = {"approved": False, "by": None, "note": "expired", "edit": None}
        assert user_json.read(left.value or "") == told
    assert at.claim(at.desk.lease(lease.job_id), 82_000).kind == "refused"


def test_a_decision_written_before_the_time_counts_if_it_is_read_first() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    with at.desk.held_back():
        written = at.desk.driver.now
        at.worker.desk.driver.advance(3_700)
        at.decide(lease, id_, at=written)
    assert at.approval().status in ("approved", "expired")  # whichever was read first
    at.decide(lease, id_, at=at.desk.driver.now)
    assert at.refusals()


def test_after_an_edit_only_its_arguments_begin() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.edit(lease, id_, 41_000, by="ann")
    (effect,) = at.approval().effects
    assert (effect.digest, effect.edited_digest) == (digest(82_000), digest(41_000))
    lease = at.go_on(lease.job_id)
    refused = at.claim(lease, 82_000)
    assert (refused.kind, digest(82_000).hex() in refused.message) == ("refused", True)
    assert at.claim(lease, 41_000).kind == "granted"


def test_an_edit_voids_earlier_votes() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.decide(lease, id_)
    at.edit(lease, id_, 41_000, by="bob")
    assert (at.status(lease), [vote.by for vote in at.approval().votes]) == ("waiting", ["bob"])
    at.edit(lease, id_, 41_000, by="ann")
    assert at.decision(lease)["by"] == "ann"


def test_820_000_are_not_claimed_with_an_approval_of_82_000() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.decide(lease, id_)
    lease = at.go_on(lease.job_id)
    refused = at.claim(lease, 820_000)
    assert refused.kind == "refused"
    assert digest(82_000).hex() in refused.message
    assert digest(820_000).hex() in refused.message
    assert at.entries() == []


def test_a_new_approval_under_another_key_lets_the_new_arguments_begin() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.decide(lease, id_)
    lease = at.go_on(lease.job_id)
    at.desk.driver.advance(1)
    second = at.ask(lease, "refund again", 820_000)
    assert at.claim(lease, 82_000).kind == "refused"  # the last question counts
    at.decide(lease, second)
    assert at.claim(lease, 820_000).kind == "granted"


def test_a_rejected_effect_does_not_begin() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.decide(lease, id_, approved=False)
    refused = at.claim(at.go_on(lease.job_id), 82_000)
    assert (refused.kind, "rejected by ann: noted" in refused.message) == ("refused", True)


def test_an_effect_that_is_asked_for_does_not_begin_before_the_decision() -> None:
    at = Asker()
    lease = at.job()
    at.ask(lease)
    assert at.claim(lease, 82_000).kind == "refused"


def test_another_question_under_the_same_key_is_refused() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    at.ask(lease, amount=820_000, digest=b"o" * 32)
    assert at.approval().effects[0].digest == digest(82_000)
    at.decide(lease, id_)
    at.park(lease, id_, evidence=b"o" * 32)
    assert at.left(lease).raises == "WaitRefused"


def test_a_cancelled_job_has_no_open_approval() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    with at.desk.held_back():
        at.desk.cancel(lease.job_id)
        at.decide(lease, id_)
    assert (at.status(lease), at.approval().status) == ("cancelled", "cancelled")
    assert at.refusals() == ["approval_cancelled"]


def test_a_decision_before_the_cancel_counts_and_the_job_is_cancelled_all_the_same() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    with at.desk.held_back():
        at.decide(lease, id_)
        at.desk.cancel(lease.job_id)
    assert (at.status(lease), at.approval().status) == ("cancelled", "approved")


def test_an_approval_that_lost_against_another_wait_is_cancelled() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    at.park(lease, id_, Wait("sleep", "time", 0, b"s", group=0, timeout_ms=60_000))
    at.worker.stay(61)
    assert at.approval().status == "cancelled"
    assert at.claim(at.go_on(lease.job_id), 82_000).kind == "refused"


def test_a_job_that_ends_before_it_waits_has_no_open_approval() -> None:
    at = Asker()
    lease = at.job()
    at.ask(lease)
    at.worker.end(lease, "failed")
    assert (at.status(lease), at.approval().status) == ("failed", "cancelled")


def test_a_dropped_question_is_asked_anew_only_if_it_is_the_same() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    at.park(lease, id_, Wait("sleep", "time", 0, b"s", group=0, timeout_ms=60_000))
    at.worker.stay(61)
    lease = at.go_on(lease.job_id)
    at.ask(lease, amount=820_000, digest=b"o" * 32)
    assert at.approval().status == "cancelled"
    at.ask(lease)
    assert at.approval().status == "pending"


def test_a_lost_run_asks_for_nothing() -> None:
    at = Asker()
    lease = at.job()
    at.ask(dataclasses.replace(lease, epoch=lease.epoch + 1))
    assert at.desk.driver.output("approvals") == []


def test_the_submitter_may_not_decide() -> None:
    at = Asker()
    at.desk.submit("job_s")
    lease = at.go_on("job_s")
    id_ = at.ask(lease, approvers="not_submitter")
    at.decide(lease, id_, by="ops")
    assert at.refusals() == ["submitter_may_not_decide"]
    at.decide(lease, id_, by="ann")
    assert at.approval().status == "approved"


RULE = ApprovalRule("pay:*")


def test_a_rule_of_the_topology_asks_for_effects_that_nobody_asked_for() -> None:
    at = Asker(approvals=(RULE,))
    lease = at.job()
    assert at.claim(lease, 82_000).kind == "approval"
    assert at.worker.claim(lease).kind == "granted"  # of another tool
    id_ = at.ask(lease, ACTION)
    assert at.claim(lease, 82_000).kind == "approval"
    at.decide(lease, id_)
    assert at.approval().policy == f"the topology wants an approval ({RULE})"
    assert at.claim(lease, 820_000).kind == "refused"
    assert at.claim(lease, 82_000).kind == "granted"


@pytest.mark.parametrize("ends", ["rejected", "expired"])
def test_a_run_that_began_before_the_decision_parks_to_get_it(ends: str) -> None:
    at = Asker(approvals=(RULE,))
    lease = at.job()
    id_ = at.ask(lease, ACTION)
    at.park(lease, id_, Wait("nap", "time", 1, b"s", group=1, timeout_ms=5_000))
    at.worker.stay(6)
    lease = at.go_on(lease.job_id)
    if ends == "rejected":
        at.decide(lease, id_, approved=False)
    else:
        at.worker.stay(3_600, lease)
    assert at.approval().status == ends
    assert at.claim(lease, 82_000).kind == "approval"
    assert at.claim(lease, 820_000).kind == "refused"
    at.ask(lease, ACTION)
    at.park(lease, id_)
    assert at.decision(lease)["approved"] is False


def test_an_approval_that_loses_between_the_question_and_the_park_of_another_task_stands() -> None:
    at = Asker()
    lease = at.job()
    id_, message = at.ask(lease), event_wait("t1", "message", since="now")
    at.park(lease, id_, message, Wait("nap", "time", 1, b"s", group=1, timeout_ms=5_000))
    at.desk.driver.advance(6)
    lease = at.go_on(lease.job_id)
    at.ask(lease)
    at.desk.event("t1", type_="reply.sent")
    assert at.approval().status == "cancelled"
    asked = Wait("approval[refund]", "approval", 0, EVIDENCE, approval_id=id_)
    by_two = asked.in_groups((WaitGroup(0), WaitGroup(1)))
    at.worker.end(lease, "parked", waits=(by_two, message))
    assert (at.approval().status, at.desk.job(lease.job_id).waits[0].id) == ("pending", asked.id)
    at.decide(lease, id_)
    assert (at.approval().status, at.refusals()) == ("approved", [])


@pytest.mark.parametrize("goes_on", ["parks for something else", "begins anew"])
def test_what_a_lost_run_asked_and_no_later_one_is_cancelled(goes_on: str) -> None:
    at = Asker()
    first = at.job()
    at.ask(first)
    at.worker.end(first, "retry", after=0)
    lease = at.go_on(first.job_id)
    if goes_on == "begins anew":
        at.worker.end(lease, "continued", result="{}")
    else:
        nap = Wait("nap", "time", 1, b"s", group=0, timeout_ms=5_000)
        at.worker.end(lease, "parked", waits=(nap,))
    assert at.approval().status == "cancelled"


def test_what_is_done_needs_no_approval_any_more() -> None:
    at = Asker()
    lease = at.job()
    reply = at.claim(lease, 82_000)
    at.worker.outcome(lease, reply, "done", action=ACTION)
    at.desk.start_with(*ROUTES, approvals=(RULE,))
    assert at.claim(lease, 82_000).kind == "done"


@pytest.mark.parametrize("draft", [True, False])
def test_each_effect_of_a_draft_needs_an_approval(draft: bool) -> None:
    route = Route("zendesk", "ticket.*", "draft_reply", "webhook", draft=draft)
    at = Asker(route)
    lease = at.job()
    assert at.desk.job(lease.job_id).draft is draft
    assert at.claim(lease, 82_000).kind == ("approval" if draft else "granted")


@pytest.mark.parametrize("point", get_args(CrashPoint))
@pytest.mark.parametrize("step", ["ask", "park", "decide"])
def test_a_crash_at_each_point_changes_nothing(step: str, point: CrashPoint) -> None:
    at = Asker()
    lease = at.job()
    acts: dict[str, Callable[[], object]] = {
        "ask": lambda: at.ask(lease),
        "park": lambda: at.park(lease, approval_id("acme", lease.scope, "refund")),
        "decide": lambda: at.decide(lease, approval_id("acme", lease.scope, "refund")),
    }
    for name, act in acts.items():
        if name == step:
            at.desk.driver.crash("dispatcher", point)
        act()
        at.desk.driver.advance(0.5)
    at.worker.stay(31)  # a lease that was committed and not handed out runs out
    assert at.approval().status == "approved"
    assert len({vote.decision_id for vote in at.approval().votes}) == 1
    assert at.decision(lease)["approved"]
    assert at.claim(at.desk.lease(lease.job_id), 820_000).kind == "refused"
    assert at.claim(at.desk.lease(lease.job_id), 82_000).kind == "granted"


def test_approvals_are_forgotten_with_their_job() -> None:
    at = Asker(finished_jobs_ms=HOUR_MS)
    lease, id_ = at.waiting()
    at.decide(lease, id_)
    at.worker.end(at.go_on(lease.job_id), "succeeded")
    at.worker.stay(3 * 3_600)
    assert at.desk.driver.output("approvals")[-1].value is None
