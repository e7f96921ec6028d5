"""Claims: a worker asks the ledger before a side effect, and tells what became of it."""

from __future__ import annotations

from functools import partial

from streams import ledger, ledger_entries
from streams.dispatcher import metrics
from streams.dispatcher.approved_effects import Objection, objection
from streams.dispatcher.call_places import enter, leave
from streams.dispatcher.circuits import heard
from streams.dispatcher.living_lease import is_held, living, why_not
from streams.dispatcher.part import Part
from streams.dispatcher.replies import TOPIC, check_partition
from streams.dispatcher.review import go_on, known
from streams.dispatcher.shared_effects import expire_at
from streams.dispatcher.step import Step
from streams.ledger_entries import renew_note
from streams.runtime.part import handles
from streams.serde.effect_scopes import JOB, effect_scope, is_shared
from streams.serde.effect_states import DONE
from streams.serde.job_states import LEASED
from streams.serde.records import Claim, Command, Job, Outcome, Reply, ReplyKind


class Claims(Part):
    """Answers claims against the living lease, and records outcomes."""

    @handles(Claim)
    def claim(self, step: Step, command: Command, body: Claim, at: int) -> None:
        check_partition(self.topology, TOPIC, body.reply_partition)
        job = living(step, command, body.run_id)
        refusal = why_not(step, job)
        if job is None or refusal is not None:
            reply = _plain(body, command, *(refusal or ("lost",)))
        else:
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
        step.answer(reply, body.reply_partition)

    @handles(Outcome)
    def outcome(self, step: Step, command: Command, body: Outcome, at: int) -> None:
        """Record an outcome; that of a shared effect counts even if its job is forgotten."""
        job = step.table.get(command.job_id)
        if job is not None:
            leave(step, job, body.claim_id)
        tenant_id = command.tenant_id if job is None else job.tenant_id
        scope = effect_scope("" if job is None else job.scope, body.once_per)
        entry = ledger.outcome(step.ledger, tenant_id, scope, body, step.now)
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


def _plain(body: Claim, command: Command, kind: ReplyKind, message: str = "") -> Reply:
    return Reply(
        body.worker_id, command.job_id, command.epoch, body.claim_id, kind, message=message
    )
