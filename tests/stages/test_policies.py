"""Policies decide when an effect's claim is read, by the topology that the dispatcher has then."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.asking import ACTION, Asker
from support.dispatching import DIGEST, Desk, ScriptedWorker

from streams.new_jobs import FIRST, from_child
from streams.serde.ids import new_id
from streams.serde.records import ChildSpec, Claim, Lease, PolicyObjection, Reply
from streams.topology.model import ApprovalRule
from streams.topology.policies import Policy

DENIED = "policy no-mail denies tool email:send to principal source:zendesk"
NO_MAIL = Policy("no-mail", "deny", tool="email:*")


def desk_with(*policies: Policy, **changes: Any) -> tuple[Desk, ScriptedWorker]:
    desk = Desk()
    desk.deploy(policies=policies, **changes)
    desk.driver.advance(0.5)
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    return desk, worker


def leased(desk: Desk, key: str = "t1", **of: Any) -> Lease:
    job_id = desk.event(key, **of)
    desk.driver.advance(0.1)
    return desk.lease(job_id)


def claimed(worker: ScriptedWorker, lease: Lease, objection: PolicyObjection | None) -> Reply:
    """The answer to a claim with which a policy's objection comes."""
    asked = new_id("clm"), lease.run_id, "email:send/reply", DIGEST
    worker.order(Claim(*asked, 0, objection=objection), lease.job_id, lease.epoch)
    return worker.desk.replies()[-1]


def test_without_policies_every_effect_is_allowed() -> None:
    desk, worker = desk_with()
    assert worker.claim(leased(desk)).kind == "granted"


def test_a_denied_effect_does_not_begin_and_the_ledger_says_why() -> None:
    desk, worker = desk_with(NO_MAIL)
    lease = leased(desk)
    reply = worker.claim(lease)
    assert (reply.kind, reply.message) == ("denied", DENIED)
    (entry,) = desk.ledger()
    assert (entry.status, entry.error, entry.claims) == ("failed", DENIED, 0)
    assert entry.job_id == lease.job_id


@pytest.mark.parametrize(
    ("policy", "is_denied"),
    [
        (Policy("no-mail", "deny"), True),
        (Policy("no-mail", "deny", tool="email:send"), True),
        (Policy("no-mail", "deny", tool="email"), False),
        (Policy("no-mail", "deny", tenant="acme"), True),
        (Policy("no-mail", "deny", tenant="other"), False),
        (Policy("no-mail", "deny", job_type="draft_*"), True),
        (Policy("no-mail", "deny", job_type="refund"), False),
        (Policy("no-mail", "deny", principal="source:*"), True),
        (Policy("no-mail", "deny", principal="source:stripe"), False),
        (Policy("no-mail", "deny", tool="email:*", principal="ops"), False),
    ],
)
def test_every_attribute_must_match(policy: Policy, is_denied: bool) -> None:
    desk, worker = desk_with(policy)
    assert worker.claim(leased(desk)).kind == ("denied" if is_denied else "granted")


def test_the_first_policy_that_matches_decides() -> None:
    desk, worker = desk_with(Policy("acme-may", "allow", tenant="acme"), NO_MAIL)
    assert worker.claim(leased(desk)).kind == "granted"
    assert worker.claim(leased(desk, tenant="other")).kind == "denied"


def test_rights_that_have_gone_since_the_job_began_are_gone() -> None:
    desk, worker = desk_with()
    lease = leased(desk)
    assert worker.claim(lease, "email:send/first").kind == "granted"
    desk.deploy(policies=(NO_MAIL,))
    worker.heartbeat(lease)
    desk.driver.advance(0.5)
    assert worker.claim(lease, "email:send/second").kind == "denied"


def test_an_effect_that_is_done_gives_its_result_whatever_the_policies_say_now() -> None:
    desk, worker = desk_with()
    lease = leased(desk)
    worker.outcome(lease, worker.claim(lease), "done", '"sent"')
    desk.deploy(policies=(NO_MAIL,))
    worker.heartbeat(lease)
    desk.driver.advance(0.5)
    reply = worker.claim(lease)
    assert (reply.kind, reply.result) == ("done", '"sent"')


def test_an_unknown_outcome_stays_unknown_when_its_repetition_is_denied() -> None:
    desk, worker = desk_with()
    lease = leased(desk)
    worker.outcome(lease, worker.claim(lease, lifetime_ms=10**9), "unknown")
    desk.deploy(policies=(NO_MAIL,))
    worker.heartbeat(lease)
    desk.driver.advance(0.5)
    assert worker.claim(lease, lifetime_ms=10**9).kind == "denied"
    assert desk.ledger()[-1].status == "unknown"


def test_a_repeated_question_gets_the_same_denial_and_a_later_right_grants() -> None:
    desk, worker = desk_with(NO_MAIL)
    lease = leased(desk)
    told = [worker.claim(lease, claim_id="clm_1").kind for _ in range(2)]
    desk.deploy(policies=())
    worker.heartbeat(lease)
    desk.driver.advance(0.5)
    assert [*told, worker.claim(lease).kind] == ["denied", "denied", "granted"]


def test_a_denied_shared_effect_is_forgotten_when_its_time_is_over() -> None:
    desk, worker = desk_with(NO_MAIL)
    lease = leased(desk)
    assert worker.claim(lease, once_per="tenant", keep_ms=60_000).kind == "denied"
    worker.end(lease, "failed", error=DENIED)
    desk.driver.advance(120)
    shared = [r for r in desk.driver.output("ledger") if r.key and b"@tenant\0email" in r.key]
    assert [record.value is None for record in shared] == [False, True]


def test_a_policy_may_want_people_to_approve() -> None:
    desk, worker = desk_with(Policy("ask", "approve", tool="email:*"))
    reply = worker.claim(leased(desk))
    assert reply.kind == "approval"
    assert reply.message == "effect email:send/reply: policy ask wants an approval"


def test_an_approval_names_the_policy_that_asked_for_it_and_the_effect_then_begins() -> None:
    at = Asker(policies=(Policy("ask", "approve", tool="pay:*"),))
    lease = at.job()
    assert at.claim(lease, 82_000).kind == "approval"
    at.decide(lease, at.ask(lease, ACTION))
    assert at.approval().policy == "policy ask wants an approval"
    assert at.claim(lease, 82_000).kind == "granted"


def test_an_approval_names_the_applications_policy_that_asked_for_it() -> None:
    at = Asker()
    lease = at.job()
    at.ask(lease, ACTION, objection=PolicyObjection("hours", "approve", "it is night"))
    assert at.approval().policy == "policy hours wants an approval: it is night"


def test_what_people_have_approved_is_denied_all_the_same() -> None:
    at = Asker(policies=(Policy("no-pay", "deny", tool="pay:*"),))
    lease = at.job()
    at.decide(lease, at.ask(lease))
    assert at.approval().status == "approved"
    assert at.claim(lease, 82_000).kind == "denied"


def test_an_allowed_effect_still_needs_the_approvals_that_the_topology_demands() -> None:
    desk, worker = desk_with(Policy("may", "allow"), approvals=(ApprovalRule("email:*"),))
    assert worker.claim(leased(desk)).kind == "approval"


@pytest.mark.parametrize(
    ("objection", "kind", "told"),
    [
        (None, "granted", ""),
        (
            PolicyObjection("hours", "deny", "it is night"),
            "denied",
            "policy hours denies ",
        ),
        (PolicyObjection("hours", "approve", "it is night"), "approval", "policy hours wants an "),
    ],
)
def test_the_objection_of_the_applications_policy_comes_with_the_claim(
    objection: PolicyObjection | None, kind: str, told: str
) -> None:
    desk, worker = desk_with()
    reply = claimed(worker, leased(desk), objection)
    assert reply.kind == kind
    assert told in reply.message
    assert objection is None or reply.message.endswith(": it is night")


def test_an_application_cannot_allow_what_the_topology_denies() -> None:
    desk, worker = desk_with(NO_MAIL)
    objection = PolicyObjection("hours", "approve", "it is night")
    assert claimed(worker, leased(desk), objection).message == DENIED


def test_the_lease_names_the_principal() -> None:
    desk, _ = desk_with()
    assert leased(desk).principal == "source:zendesk"
    desk.submit("job_1")
    desk.driver.advance(0.1)
    assert desk.lease("job_1").principal == "ops"


def test_a_child_has_the_principal_of_its_parent() -> None:
    desk, _ = desk_with()
    parent = desk.job(leased(desk).job_id)
    spec = ChildSpec("call", "refund", "null", b"")
    scheduled = dataclasses.replace(parent, event=None, schedule_id="nightly")
    children = [
        from_child("job_c", each, spec, "", desk.topology, place=FIRST, now=1)
        for each in (parent, scheduled)
    ]
    assert [child.submitted_by for child in children] == ["source:zendesk", "schedule:nightly"]
