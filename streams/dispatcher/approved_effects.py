"""Whether policies and people let an effect begin: what was approved is compared with the claim.

What a policy denies does not begin, whether people have approved it or not. Otherwise the approval
of the job's scope that was asked for last decides. Without one, an effect needs an approval if its
job is a draft, or if a rule or a policy says so. Then the worker asks for one.
"""

from __future__ import annotations

from streams.dispatcher import approval_rows, policies
from streams.dispatcher.step import Step
from streams.serde.approval_states import APPROVED, PENDING, REJECTED
from streams.serde.records import (
    Approval,
    ApprovalEffect,
    Claim,
    Job,
    PolicyObjection,
    ReplyKind,
)

Objection = tuple[ReplyKind, str]


def objection(step: Step, job: Job, asked: Claim) -> Objection | None:
    """Why an effect may not begin, as a kind of reply and its message; None if it may."""
    denied = policies.denial(step, job, asked)
    if denied is not None:
        return "denied", denied
    approval = _newest(step, job, asked.action)
    if approval is None:
        why = needs_approval(step, job, asked.action, asked.objection)
        return None if why is None else ("approval", f"effect {asked.action}: {why}")
    if approval.status == APPROVED:
        return _other_arguments(approval, asked)
    told = f"effect {asked.action} is not approved: {_told(approval)}"
    return ("approval" if _is_for_its_wait(approval, job, asked) else "refused"), told


def _is_for_its_wait(approval: Approval, job: Job, asked: Claim) -> bool:
    """Whether the run parks for the effect's own approval, and gets the decision so.

    It may have ended already: a decision is unknown to a run that began before it.
    """
    if not approval_rows.is_proposal(approval.key, approval.effects):
        return False
    is_open = approval.status == PENDING or approval_rows.may_be_asked_anew(approval, job)
    return is_open or asked.digest == approval.effects[0].digest


def needs_approval(
    step: Step, job: Job, action: str, own: PolicyObjection | None = None
) -> str | None:
    """Why an effect needs an approval that its handler does not ask for; None if it does not."""
    if job.draft or step.topology.job_type(job.type).draft:
        return "the job is a draft"
    rule = step.topology.approval_rule(action.partition("/")[0], job.tenant_id, job.type)
    if rule is not None:
        return f"the topology wants an approval ({rule})"
    return policies.wants_approval(step, job, action, own)


def _newest(step: Step, job: Job, action: str) -> Approval | None:
    """The approval of an effect that was asked for last."""
    if not step.shared.has_approvals:
        return None
    found = [each for each in approval_rows.in_scope(step, job) if _effect(each, action)]
    return max(found, key=lambda each: (each.asked_at, each.approval_id), default=None)


def _effect(approval: Approval, action: str) -> ApprovalEffect | None:
    return next((each for each in approval.effects if each.action == action), None)


def _other_arguments(approval: Approval, asked: Claim) -> Objection | None:
    """Refuse an effect with other arguments than the approved ones."""
    effect = _effect(approval, asked.action)
    if effect is None:
        return None
    approved = effect.edited_digest or effect.digest
    if approved == asked.digest:
        return None
    if asked.digest == effect.digest and approval_rows.is_proposal(approval.key, approval.effects):
        # The run that proposed it was lost before it parked: the next one parks, and gets the edit.
        return "approval", f"effect {asked.action} was edited in approval {approval.approval_id}"
    edited = ", as they were edited," if effect.edited_digest else ""
    return "refused", (
        f"approval {approval.approval_id} lets effect {asked.action} begin with the arguments of "
        f"SHA-256 {approved.hex()}{edited} and not with those of {asked.digest.hex()}: ask for a "
        "new approval, under another key"
    )


def _told(approval: Approval) -> str:
    name = f"approval {approval.approval_id}"
    if approval.status == REJECTED:
        return f"{name} was rejected by {approval.by}: {approval.note or 'without a note'}"
    if approval.status == PENDING:
        return f"{name} is not decided: await it before the effect"
    return f"{name} is {approval.status}: ask for a new one, under another key"
