"""The rows of the store `approvals`.

An approval's key is (tenant, scope, id) on the compacted topic `approvals`, which is this store's
changelog. The id follows from the scope and the key that the handler gives, so a repeated run asks
for the same one. A pending approval ends once: it is approved, rejected, expired or cancelled. A
proposal is the approval of one effect that its handler just asks for, under the effect's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from streams import user_json
from streams.dispatcher.step import Step
from streams.serde.approval_states import CANCELLED, EXPIRED, PENDING, ApprovalStatus
from streams.serde.codec import APPROVAL
from streams.serde.keys import SEPARATOR, after, approval_key, join
from streams.serde.records import Approval, ApprovalEffect, Job, StepResult, Wait
from streams.serde.step_ids import is_proposal_id

MOST_ASKED = 1_000
"""How many approvals the jobs of one scope may ask for: each claim looks through them."""


def find(step: Step, job: Job, approval_id: str) -> Approval | None:
    """An approval that a job of this scope asked for."""
    value = step.approvals.get(approval_key(job.tenant_id, job.scope, approval_id))
    return None if value is None else APPROVAL.decode(value)


def put(step: Step, approval: Approval) -> None:
    """Write an approval, which shows it to the operator."""
    key = approval_key(approval.tenant_id, approval.scope, approval.approval_id)
    step.approvals.put(key, APPROVAL.encode(approval))


def in_scope(step: Step, job: Job) -> Iterator[Approval]:
    """Every approval of the job's scope."""
    prefix = join(job.tenant_id, job.scope) + SEPARATOR
    return (APPROVAL.decode(value) for _, value in step.approvals.range(prefix, after(prefix)))


def is_proposal(key: str, effects: Iterable[ApprovalEffect]) -> bool:
    """Whether an approval with this key is the proposal of its effect."""
    return [effect.action for effect in effects] == [key]


def may_be_asked_anew(approval: Approval, job: Job) -> bool:
    """Whether nobody has decided, and a job may ask again: if it was dropped, or is a replay's."""
    if approval.status == EXPIRED and is_proposal(approval.key, approval.effects):
        return approval.job_id != job.job_id
    return approval.status == CANCELLED


def has_lapsed(left: StepResult) -> bool:
    """Whether the wait for a proposal left that nobody decided about it in time."""
    if left.kind != "approval" or not is_proposal_id(left.id) or left.value is None:
        return False
    return user_json.read(left.value)["by"] is None


def ended(step: Step, approval: Approval, status: ApprovalStatus) -> Approval:
    """End a pending approval."""
    approval = replace(approval, status=status, ended_at=step.now)
    put(step, approval)
    return approval


def asked_again(step: Step, approval: Approval) -> Approval:
    """Ask again for what was dropped after the run that parks for it had asked for it."""
    approval = replace(approval, status=PENDING, ended_at=None)
    put(step, approval)
    return approval


def cancel_unawaited(step: Step, job: Job, waits: Iterable[Wait] = ()) -> None:
    """Cancel what a job has asked of people, but for what its waits are for.

    A run may have asked, and have been lost before it parked.
    """
    if not step.shared.has_approvals:
        return
    awaited = {wait.approval_id for wait in waits}
    for approval in list(in_scope(step, job)):
        is_its_own = approval.status == PENDING and approval.job_id == job.job_id
        if is_its_own and approval.approval_id not in awaited:
            ended(step, approval, CANCELLED)


def withdraw(step: Step, job: Job, wait: Wait) -> None:
    """Cancel the approval of a wait that is dropped, unless it has ended."""
    approval = None if wait.approval_id is None else find(step, job, wait.approval_id)
    if approval is not None and approval.status == PENDING:
        ended(step, approval, CANCELLED)
