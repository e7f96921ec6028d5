"""Approvals: a run asks for a person's decision, and the first one that is read counts.

A run asks before it parks, and its wait ends with the decision. The questions and decisions of a
tenant are read in one order, so of two decisions, or of a decision and the end of the time, the
first wins. Sealed texts stay sealed here.
"""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher import approval_rows, metrics
from streams.dispatcher.approvals import decided, is_late
from streams.dispatcher.approved_effects import needs_approval
from streams.dispatcher.living_lease import living
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.waiting import end_wait
from streams.errors import LONGEST_WAIT_SECONDS, PoisonRecord
from streams.http.moments import rfc3339
from streams.runtime.part import handles
from streams.runtime.processor import Context
from streams.serde.approval_states import (
    APPROVED,
    CANCELLED,
    DECIDED,
    EXPIRED,
    PENDING,
    REJECTED,
    ApprovalStatus,
)
from streams.serde.ids import approval_id
from streams.serde.records import Approval, AskApproval, Command, Decide, Job, Vote


class Approvals(Part):
    """Keeps what one partition's jobs ask of people, and what people decide."""

    def restored(self, ctx: Context) -> None:
        found = ctx.store("approvals").range(b"", b"\xff")
        self.shared.has_approvals = next(iter(found), None) is not None

    @handles(AskApproval)
    def ask(self, step: Step, command: Command, body: AskApproval, at: int) -> None:
        """Ask for a decision, unless it was asked for before.

        A dropped one is asked for anew, if it is about the same: whoever looks at the old question
        must not approve another one.
        """
        job = living(step, command, body.run_id)
        if job is None:
            return
        id_ = approval_id(job.tenant_id, job.scope, body.key)
        known = approval_rows.find(step, job, id_)
        if known is not None and (known.status != CANCELLED or known.digest != body.digest):
            metrics.TWINS.inc()
            return
        self.shared.has_approvals = True
        approval_rows.put(step, self._asked(step, job, id_, body))

    @handles(Decide)
    def decide(self, step: Step, command: Command, body: Decide, at: int) -> None:
        """Note a decision; the job goes on once enough people have approved, or one rejected.

        `at` is the time of the command's record, in milliseconds.

        Raises:
            PoisonRecord: nothing is to be decided by this person now; nothing was changed.
        """
        job = step.table.get(command.job_id)
        approval = None
        if job is not None and job.tenant_id == command.tenant_id:
            approval = approval_rows.find(step, job, body.approval_id)
        if job is None or approval is None:
            raise PoisonRecord("approval_unknown", f"no approval {body.approval_id} of this tenant")
        if any(vote.decision_id == body.decision_id for vote in approval.votes):
            metrics.TWINS.inc()
            return
        _check(approval, body, at)
        approval = _voted(approval, body, at, step.now)
        approval_rows.put(step, approval)
        if approval.status != PENDING:
            _tell(step, job, approval)

    def ended(self, step: Step, job: Job) -> None:
        """Cancel what a job that has ended still asked for."""
        if not self.shared.has_approvals:
            return
        for approval in list(approval_rows.in_scope(step, job)):
            if approval.status == PENDING and approval.job_id == job.job_id:
                approval_rows.ended(step, approval, CANCELLED)

    def _asked(self, step: Step, job: Job, id_: str, body: AskApproval) -> Approval:
        return Approval(
            id_,
            job.tenant_id,
            job.job_id,
            job.scope,
            body.key,
            PENDING,
            body.digest,
            body.asked,
            body.effects,
            None,
            job.submitted_by,
            body.approvers,
            body.quorum,
            body.on_timeout,
            self._policy(step, job, body),
            (),
            None,
            "",
            step.now,
            self._expires_at(step, job, body),
            None,
        )

    def _policy(self, step: Step, job: Job, body: AskApproval) -> str:
        """What asked for an approval, as it says at this time."""
        if [effect.action for effect in body.effects] != [body.key]:
            return "handler"
        return needs_approval(step, job, body.key) or "handler"

    def _expires_at(self, step: Step, job: Job, body: AskApproval) -> int | None:
        """When an approval expires: as the handler says, else with the body of the job."""
        kept_ms = self.topology.topics["payloads"].retention_ms
        if body.timeout_ms is not None:
            return step.now + body.timeout_ms
        longest = step.now + LONGEST_WAIT_SECONDS * 1000
        if job.payload_ref is not None and kept_ms is not None:
            return min(job.event_time + kept_ms, longest)
        return longest


def _check(approval: Approval, body: Decide, at: int) -> None:
    """Refuse a decision that comes too late, or from a person who may not decide."""
    name = f"approval {approval.approval_id}"
    if approval.status in DECIDED:
        raise PoisonRecord("already_decided", f"{name} was {told(approval)}")
    if approval.status == EXPIRED or (approval.status == PENDING and is_late(approval, at)):
        when = rfc3339(approval.expires_at)
        raise PoisonRecord("expired", f"{name} expired at {when}: its job went on without it")
    if approval.status == CANCELLED:
        raise PoisonRecord("approval_cancelled", f"{name} is cancelled: its job does not wait")
    if approval.approvers == "not_submitter" and body.by == approval.submitter:
        raise PoisonRecord(
            "submitter_may_not_decide", f"{body.by} submitted the job of {name}: ask somebody else"
        )
    if body.approved and any(vote.by == body.by for vote in approval.votes) and body.edit is None:
        raise PoisonRecord(
            "already_decided", f"{body.by} has approved {name}: {approval.quorum} people must"
        )
    if body.edit is not None and len(body.edited) != len(approval.effects):
        raise PoisonRecord("not_supported", f"the edit of {name} is not one of its effects")


def told(approval: Approval) -> str:
    """A sentence part that names the decision, the person and the time."""
    return f"{approval.status} by {approval.by} at {rfc3339(approval.ended_at)}"


def _voted(approval: Approval, body: Decide, at: int, now: int) -> Approval:
    """The approval with one more vote; an edit is another question, so earlier votes are void."""
    vote = Vote(body.decision_id, body.approved, body.by, at, body.note)
    if body.approved and body.edit is not None:
        effects = tuple(
            replace(effect, edited_digest=digest)
            for effect, digest in zip(approval.effects, body.edited, strict=True)
        )
        approval = replace(approval, edit=body.edit, effects=effects, votes=())
    approval = replace(approval, votes=(*approval.votes, vote))
    if body.approved and len(approval.votes) < approval.quorum:
        return approval
    status: ApprovalStatus = APPROVED if body.approved else REJECTED
    return replace(approval, status=status, by=body.by, note=body.note, ended_at=now)


def _tell(step: Step, job: Job, approval: Approval) -> None:
    """End the waits of the job for an approval that is decided."""
    for wait in job.waits:
        if wait.approval_id == approval.approval_id and wait in job.waits:
            job = end_wait(step, job, wait, decided(wait, approval))
