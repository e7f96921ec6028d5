"""Who may decide, how many must, and about which arguments: no trick gets an effect past them."""

from __future__ import annotations

import pytest
from support.asking import ACTION, EVIDENCE, HOUR_MS, Asker, digest
from support.dispatching import ROUTES

from streams.dispatcher import approval_rows
from streams.serde.records import ApprovalEffect, Lease, Wait, WaitGroup, WaitOver
from streams.topology.model import ApprovalRule

OTHER_FORMS = ["Ann", "ANN", " ann", "ann ", "\uff41nn"]


@pytest.mark.parametrize("by", OTHER_FORMS)
def test_one_person_is_not_two_under_another_form_of_the_name(by: str) -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.decide(lease, id_, by="ann")
    at.decide(lease, id_, by=by)
    assert (at.refusals(), at.status(lease)) == (["already_approved"], "waiting")
    at.decide(lease, id_, by="bob")
    assert at.approval().status == "approved"


@pytest.mark.parametrize("by", ["Ops", "OPS", " ops"])
def test_the_submitter_may_not_decide_under_another_form_of_the_name(by: str) -> None:
    at = Asker()
    at.desk.submit("job_s")
    lease = at.go_on("job_s")
    id_ = at.ask(lease, approvers="not_submitter")
    at.decide(lease, id_, by=by)
    assert at.refusals() == ["submitter_may_not_decide"]
    assert at.approval().status == "pending"


def test_nobody_approves_an_edit_of_somebody_else_unseen() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.edit(lease, id_, 820_000, by="ann")
    at.decide(lease, id_, by="bob")  # who looked before the edit
    assert (at.refusals(), at.status(lease)) == (["edited"], "waiting")
    assert "ann" in at.desk.dead_letters()[0].detail
    at.edit(lease, id_, 820_000, by="bob")
    assert (at.approval().status, at.approval().by) == ("approved", "bob")
    assert at.claim(at.go_on(lease.job_id), 820_000).kind == "granted"


def test_the_same_person_does_not_approve_the_same_edit_twice() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.edit(lease, id_, 41_000, by="ann")
    at.edit(lease, id_, 41_000, by="Ann")
    assert (at.refusals(), at.approval().status) == (["already_approved"], "pending")


def test_another_edit_voids_the_votes_for_the_first() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.edit(lease, id_, 41_000, by="ann")
    at.edit(lease, id_, 820_000, by="bob")
    assert at.approval().status == "pending"
    at.edit(lease, id_, 820_000, by="ann")
    assert at.approval().status == "approved"
    assert at.claim(at.go_on(lease.job_id), 41_000).kind == "refused"


@pytest.mark.parametrize("end", ["rejected", "expired"])
def test_an_edit_that_was_not_approved_is_not_given_to_the_handler(end: str) -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.edit(lease, id_, 41_000, by="ann")
    if end == "rejected":
        at.decide(lease, id_, approved=False, by="bob")
    else:
        at.worker.stay(3_601)
    assert at.approval().status == end
    decision = at.decision(lease)
    assert (decision["approved"], decision["edit"]) == (False, None)


def test_a_vote_before_an_edit_does_not_count_for_it_when_it_is_read_again() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    at.decide(lease, id_, by="bob")
    at.edit(lease, id_, 820_000, by="ann")
    at.number = 0
    at.decide(lease, id_, by="bob")  # the same command as before
    assert (at.approval().status, at.status(lease)) == ("pending", "waiting")


def test_of_two_questions_in_one_batch_the_later_counts() -> None:
    at = Asker()
    lease = at.job()
    effects = (ApprovalEffect("pay:refund", "ch_1", digest(820_000)),)
    for n in range(8):
        with at.desk.held_back():
            first = at.ask(lease, f"one {n}", digest=b"1" * 32)
            at.ask(lease, f"two {n}", effects=effects, digest=b"2" * 32)
        at.decide(lease, first)
        assert at.claim(lease, 82_000).kind == "refused", n
        at.desk.driver.advance(1)


def test_an_approval_that_one_branch_still_waits_for_is_not_cancelled_with_another() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    beside = Wait("b/approval[refund]", "approval", 0, b"e" * 32, group=1, approval_id=id_)
    at.park(lease, id_, Wait("sleep", "time", 0, b"s", group=0, timeout_ms=60_000), beside)
    at.worker.stay(61)
    assert at.approval().status == "pending"
    at.decide(lease, id_)
    assert at.refusals() == []


def test_a_decision_ends_each_wait_for_it_though_they_share_a_group() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    beside = Wait("b/approval[refund]", "approval", 0, EVIDENCE, approval_id=id_)
    at.park(lease, id_, beside.in_groups((WaitGroup(0), WaitGroup(1))))
    at.decide(lease, id_)
    assert at.desk.job(lease.job_id).waits == ()
    ended = ["approval[refund]", "b/approval[refund]"]
    assert [left.id for left in at.go_on(lease.job_id).steps] == ended


def test_a_decision_sent_for_the_failed_job_reaches_its_replay_that_asks_the_same() -> None:
    at = Asker()
    lease = at.job()
    id_ = at.ask(lease)
    at.worker.end(lease, "failed")
    at.desk.replay("job_again", lease.job_id)
    again = at.go_on("job_again")
    assert at.ask(again) == id_
    at.park(again, id_)
    assert at.status(again) == "waiting"
    at.decide(lease, id_)  # whoever sent it saw the approval before the replay
    assert at.approval().status == "approved"
    assert at.decision(again)["approved"]


def timer(at: Asker, lease: Lease) -> None:
    """What the scheduler sends when the time of the job's wait is over."""
    job = at.desk.job(lease.job_id)
    (wait,) = job.waits
    body = WaitOver(job.incarnation, wait.until or 0)
    at.desk.command(body, lease.job_id, at=at.desk.driver.now + HOUR_MS)


def test_of_a_decision_and_the_end_of_the_time_in_one_batch_the_first_counts() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    with at.desk.held_back():
        timer(at, lease)
        at.decide(lease, id_)
    assert (at.approval().status, at.refusals()) == ("expired", ["expired"])
    assert not at.decision(lease)["approved"]
    assert at.claim(at.desk.lease(lease.job_id), 82_000).kind == "refused"


def test_of_the_end_of_the_time_and_a_decision_in_one_batch_the_first_counts() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    with at.desk.held_back():
        at.decide(lease, id_)
        timer(at, lease)
    assert (at.approval().status, at.refusals()) == ("approved", [])
    assert at.decision(lease)["approved"]


def test_a_vote_of_an_undone_transaction_counts_once() -> None:
    at = Asker()
    lease, id_ = at.waiting(quorum=2)
    with at.desk.held_back():
        at.decide(lease, id_)
        at.desk.abort()
    assert [vote.by for vote in at.approval().votes] == ["ann"]


def test_an_erased_tenant_is_asked_nothing() -> None:
    at = Asker()
    lease, id_ = at.waiting()
    at.desk.tenant("acme", "erasure")
    at.worker.stay(1)
    assert (at.status(lease), at.approval().status) == ("cancelled", "cancelled")
    at.decide(lease, id_)
    assert at.refusals() == ["approval_cancelled"]


def test_an_edit_reaches_a_run_that_was_lost_between_its_question_and_its_park() -> None:
    at = Asker(approvals=(ApprovalRule("pay:*"),))
    lease = at.job()
    assert at.claim(lease, 82_000).kind == "approval"
    id_ = at.ask(lease, ACTION)
    at.edit(lease, id_, 41_000, by="ann")
    assert at.claim(lease, 82_000).kind == "approval"  # the next run parks, and gets the edit
    assert at.claim(lease, 820_000).kind == "refused"
    assert at.claim(lease, 41_000).kind == "granted"


def test_a_rule_that_goes_leaves_what_was_asked_under_it() -> None:
    at = Asker(approvals=(ApprovalRule("pay:*"),))
    lease = at.job()
    effects = (ApprovalEffect("pay:refund", "ch_1", digest(82_000)),)
    id_ = at.ask(lease, ACTION, effects=effects)
    at.desk.start_with(*ROUTES, approvals=())
    assert at.claim(lease, 82_000).kind == "approval"
    assert at.approval().policy.startswith("the topology wants an approval")
    at.decide(lease, id_)
    assert at.claim(lease, 82_000).kind == "granted"


def test_a_job_asks_for_a_bounded_number_of_approvals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_rows, "MOST_ASKED", 2)
    at = Asker()
    lease = at.job()
    at.ask(lease, "one")
    at.ask(lease, "two")
    at.park(lease, at.ask(lease))
    left = at.left(lease)
    assert (left.raises, "more are not kept" in (left.message or "")) == ("WaitRefused", True)
    assert len({record.key for record in at.desk.driver.output("approvals")}) == 2


def test_approvals_survive_an_empty_disk() -> None:
    at = Asker()
    lease, id_ = at.waiting(timeout_ms=2 * HOUR_MS)
    at.desk.driver.restart("dispatcher", keep_state=False)
    at.desk.driver.advance(0.5)
    at.worker.heartbeat()
    at.decide(lease, id_)
    assert at.claim(at.go_on(lease.job_id), 820_000).kind == "refused"
    assert at.claim(at.desk.lease(lease.job_id), 82_000).kind == "granted"
