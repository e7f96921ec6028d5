"""What an approval means for the wait of its job."""

from __future__ import annotations

import base64

from streams import user_json
from streams.dispatcher.approval_rows import MOST_ASKED, asked_again, ended, find
from streams.dispatcher.step import Step
from streams.dispatcher.waiting import left_by
from streams.serde.approval_states import APPROVED, CANCELLED, EXPIRED, PENDING
from streams.serde.records import Approval, Job, Sealed, StepResult, Wait

_UNKNOWN = f"the approval is not known: a job may ask for {MOST_ASKED:,}, more are not kept"


def over_at_once(step: Step, job: Job, wait: Wait) -> StepResult | None:
    """What a wait leaves that begins when its approval has ended already, or cannot be asked."""
    approval = None if wait.approval_id is None else find(step, job, wait.approval_id)
    if approval is None:
        return _refused(wait, _UNKNOWN)
    if approval.digest != wait.digest:
        return _refused(
            wait,
            f"approval {approval.approval_id} was asked for something else under this key: give "
            "another approval another key",
        )
    if approval.status == CANCELLED:
        approval = asked_again(step, approval)
    if approval.status == PENDING and is_late(approval, step.now):
        return time_over(step, job, wait)
    return decided(wait, approval) if approval.status != PENDING else None


def expires_at(step: Step, job: Job, wait: Wait, otherwise: int | None) -> int | None:
    """When the approval of a wait expires; `otherwise` if it is not known."""
    approval = None if wait.approval_id is None else find(step, job, wait.approval_id)
    return otherwise if approval is None else approval.expires_at


def time_over(step: Step, job: Job, wait: Wait) -> StepResult:
    """What the wait for an approval leaves whose time is over: the approval expires."""
    approval = None if wait.approval_id is None else find(step, job, wait.approval_id)
    if approval is None:
        return _refused(wait, _UNKNOWN)
    if approval.status == PENDING:
        approval = ended(step, approval, EXPIRED)
    return decided(wait, approval)


def is_late(approval: Approval, at: int) -> bool:
    """Whether a decision at this time comes too late."""
    return approval.expires_at is not None and at >= approval.expires_at


def decided(wait: Wait, approval: Approval) -> StepResult:
    """What the wait for an approval leaves that has ended."""
    if approval.status == EXPIRED and approval.on_timeout == "raise":
        told = f"{wait.id}: nobody decided about approval {approval.approval_id} in time"
        return left_by(wait, raises="ApprovalExpired", message=told)
    if approval.status == CANCELLED:
        return _refused(wait, f"approval {approval.approval_id} is cancelled")
    value = {
        "approved": approval.status == APPROVED,
        "by": approval.by,
        "note": approval.note or (EXPIRED if approval.status == EXPIRED else ""),
        "edit": _sealed(approval.edit) if approval.status == APPROVED else None,
    }
    return left_by(wait, user_json.write(value).decode())


def _refused(wait: Wait, why: str) -> StepResult:
    return left_by(wait, raises="WaitRefused", message=f"{wait.id}: {why}")


def _sealed(edit: Sealed | None) -> dict[str, str] | None:
    if edit is None:
        return None
    return {"key_id": edit.key_id, "data": base64.b64encode(edit.data).decode()}
