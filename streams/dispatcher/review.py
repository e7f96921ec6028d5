"""How a job in review goes on, once nothing of its scope is left for a person to decide."""

from __future__ import annotations

from dataclasses import replace

from streams import ledger
from streams.dispatcher.scopes import in_scope
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, end, requeue
from streams.serde.effect_states import REVIEW
from streams.serde.job_states import CANCELLED, DEAD, NEEDS_REVIEW
from streams.serde.records import Job


def go_on(step: Step, job: Job, *, decided: bool = False) -> None:
    """Let the job in review in this job's scope go on, unless an effect is still in review.

    A job whose code diverged from its finished steps waits for a decision about those.
    The job keeps its place in the queue, its steps and its effects, and the attempt is given back.
    A job without attempts left gets another one only if a person decided, because a call may fail
    late each time.
    """
    if any(entry.status == REVIEW for entry in ledger.entries(step.ledger, job)):
        return
    for each in in_scope(step, job.scope):
        if each.status != NEEDS_REVIEW:
            continue
        if each.cancel_requested:
            end(step, each, CANCELLED)
        elif each.diverged is not None:
            continue
        elif each.end_reason is not None and not decided:
            bury(step, each, DEAD, each.history[-1].error)
        else:
            requeue(step, replace(each, last_error=_own_error(each)), uncount=True)


def _own_error(job: Job) -> str | None:
    """The last error of a job in review that does not ask a person.

    A run that asked is the newest in the history, unless its job's attempts are used up.
    """
    failed = job.history if job.end_reason is not None else job.history[:-1]
    return failed[-1].error if failed else None
