"""Approvals: a run asks for a person's decision, and the first one that is read counts.

A run asks before it parks, and its wait ends with the decision. The questions and decisions of a
tenant are read in one order, so of two decisions, or of a decision and the end of the time, the
first wins. Sealed texts stay sealed here.
"""

from __future__ import annotations

from streams.dispatcher import approval_rows, metrics
from streams.dispatcher.approvals import decided
from streams.dispatcher.approved_effects import needs_approval
from streams.dispatcher.living_lease import living
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.votes import check, voted
from streams.dispatcher.waiting import end_wait
from streams.errors import LONGEST_WAIT_SECONDS, PoisonRecord
from streams.runtime.part import handles
from streams.runtime.processor import Context
from streams.serde.approval_states import PENDING
from streams.serde.ids import approval_id
from streams.serde.records import Approval, AskApproval, Command, Decide, Job


class Approvals(Part):
    """Keeps what one partition's jobs ask of people, and what people decide."""

    def restored(self, ctx: Context) -> None:
        found = ctx.store("approvals").range(b"", b"\xff")
        self.shared.has_approvals = next(iter(found), None) is not None

    @handles(AskApproval)
    def ask(self, step: Step, command: Command, body: AskApproval, at: int) -> None:
        """Ask for a decision, unless it was asked for before.

        One about which nobody decided is asked for anew, if it is about the same: whoever looks at
        the old question must not approve another one.
        """
        job = living(step, command, body.run_id)
        if job is None:
            return
        id_ = approval_id(job.tenant_id, job.scope, body.key)
        known = approval_rows.find(step, job, id_)
        if known is not None:
            same = known.digest == body.digest
            if not same or not approval_rows.may_be_asked_anew(known, job):
                metrics.TWINS.inc()
                return
        others = [each.asked_at for each in approval_rows.in_scope(step, job)]
        if known is None and len(others) >= approval_rows.MOST_ASKED:
            return
        # The one that was asked for last decides, also if both came in one step.
        asked_at = max(step.now, max(others, default=0) + 1)
        self.shared.has_approvals = True
        approval_rows.put(step, self._asked(step, job, id_, body, asked_at))

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
        check(approval, body, at)
        approval = voted(approval, body, at, step.now)
        approval_rows.put(step, approval)
        if approval.status != PENDING:
            _tell(step, approval)

    def ended(self, step: Step, job: Job) -> None:
        """Cancel what a job that has ended still asked for."""
        approval_rows.cancel_unawaited(step, job)

    def replaced(self, step: Step, job: Job) -> None:
        """Cancel what a job asked for that begins anew, in another scope."""
        approval_rows.cancel_unawaited(step, job)

    def _asked(self, step: Step, job: Job, id_: str, body: AskApproval, asked_at: int) -> Approval:
        whose = job.tenant_id, job.job_id, job.type, job.scope
        return Approval(
            id_,
            *whose,
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
            asked_at,
            self._expires_at(step, job, body),
            None,
            traceparent=job.traceparent,
        )

    def _policy(self, step: Step, job: Job, body: AskApproval) -> str:
        """What asked for an approval, as it says at this time."""
        if not approval_rows.is_proposal(body.key, body.effects):
            return "handler"
        return needs_approval(step, job, body.key, body.objection) or "handler"

    def _expires_at(self, step: Step, job: Job, body: AskApproval) -> int | None:
        """When an approval expires: as the handler says, else with the body of the job."""
        kept_ms = self.topology.topics["payloads"].retention_ms
        if body.timeout_ms is not None:
            return step.now + body.timeout_ms
        longest = step.now + LONGEST_WAIT_SECONDS * 1000
        if job.payload_ref is not None and kept_ms is not None:
            return min(job.event_time + kept_ms, longest)
        return longest


def _tell(step: Step, approval: Approval) -> None:
    """End the waits for an approval that is decided, of the job that asked for it last."""
    job = step.table.get(approval.job_id)
    while job is not None:
        # Look anew each time: the end of one wait changes the groups of the others.
        found = (wait for wait in job.waits if wait.approval_id == approval.approval_id)
        wait = next(found, None)
        if wait is None:
            return
        job = end_wait(step, job, wait, decided(wait, approval))
