"""Claims: a worker asks the ledger before a side effect, and tells what became of it."""

from __future__ import annotations

from functools import partial

from streams import ledger, ledger_entries
from streams.dispatcher import metrics
from streams.dispatcher.approved_effects import Objection, objection
from streams.dispatcher.call_places import enter, leave
from streams.dispatcher.circuits import heard
from streams.dispatcher.living_lease import is_held, is_own, living, why_not
from streams.dispatcher.part import Part
from streams.dispatcher.review import go_on, known
from streams.dispatcher.shared_effects import expire_at
from streams.dispatcher.step import Step
from streams.ledger_entries import renew_note
from streams.runtime.part import handles
from streams.serde.effect_scopes import JOB, effect_scope, is_shared
from streams.serde.effect_states import DONE
from streams.serde.job_states import LEASED
from streams.serde.records import Claim, Command, Job, LedgerEntry, Outcome


class Claims(Part):
    """Answers claims against the living lease, and records outcomes."""

    @handles(Claim)
    def claim(self, step: Step, command: Command, body: Claim, at: int) -> None:
        job = living(step, command, body.run_id)
        refusal = why_not(step, job)
        if job is None or refusal is not None:
            step.answer(command, body.claim_id, *(refusal or ("lost",)))
            return
        reply = ledger.claim(
            step.ledger,
            job,
            body,
            step.now,
            lives=partial(is_held, step),
            objects=partial(_objection, step, job, body),
        )
        if reply.kind in ("granted", "denied") and body.once_per != JOB:
            _expire_later(step, job, body)
        step.tell(step.sender or "", reply)

    @handles(Outcome)
    def outcome(self, step: Step, command: Command, body: Outcome, at: int) -> None:
        """Record an outcome; that of a shared effect counts even if its job is forgotten."""
        job = step.table.get(command.job_id)
        if job is not None and is_own(step, job.worker_id):
            leave(step, job, body.claim_id)
        tenant_id = command.tenant_id if job is None else job.tenant_id
        scope = effect_scope("" if job is None else job.scope, body.once_per)
        may_tell = partial(_may_tell, step, job)
        entry = ledger.outcome(step.ledger, tenant_id, scope, body, step.now, may_tell=may_tell)
        if job is not None and is_shared(scope):
            renew_note(step.ledger, job, scope, body.action)
        if entry is not None and (body.blames_tool or body.status == DONE):
            heard(step, body.action.partition("/")[0], failed=body.status != DONE)
        if entry is None:
            metrics.STALE.labels("Outcome").inc()
        elif is_shared(scope):
            known(step, entry)
        elif job is not None and job.status not in LEASED:  # a job may be in review for it
            go_on(step, job)


def _expire_later(step: Step, job: Job, body: Claim) -> None:
    """Set the time at which a new shared effect is looked at again."""
    scope = effect_scope(job.scope, body.once_per)
    entry = ledger_entries.get(step.ledger, job.tenant_id, scope, body.action)
    if entry is not None and entry.first_claimed_at == step.now:
        expire_at(step, entry, step.now + entry.keep_ms)


def _objection(step: Step, job: Job, body: Claim) -> Objection | None:
    """Which policy, person or limit lets an effect not begin; without one, it has its places."""
    against = objection(step, job, body)
    if against is not None:
        return against
    tool = body.action.partition("/")[0]
    full = enter(step, job, body.claim_id, tool=tool, model=body.model)
    return None if full is None else ("full", full)


def _may_tell(step: Step, job: Job | None, entry: LedgerEntry) -> bool:
    """Whether the worker that tells an outcome has made the call.

    It claimed the effect last, or it had a run of the job that claimed it before.
    """
    if is_own(step, entry.worker_id):
        return True
    if job is None or step.sender not in (job.worker_id, *(run.worker_id for run in job.history)):
        return False
    scopes = ledger_entries.scopes_of(step.ledger, job, entry.action)
    return not is_shared(entry.scope) or entry.scope in scopes
