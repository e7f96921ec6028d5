"""How a job in review goes on, once nothing that it asked for is left for a person to decide.

Jobs wait together for an effect of a shared scope: in review, or blocked by the run that makes it.
The store `parts` keeps each of them under `v` tenant scope action job_id, with the epoch of a
blocked one, and `D` tenant scope action for an effect that is known while more of them wait than go
on in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from streams.dispatcher.part import AT_ONCE
from streams.dispatcher.scopes import in_scope
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, end, requeue
from streams.ledger_entries import entries, get, shared_ones
from streams.serde.effect_scopes import is_shared
from streams.serde.effect_states import REVIEW, UNSETTLED
from streams.serde.job_states import CANCELLED, DEAD, NEEDS_REVIEW, SCHEDULED
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Job, LedgerEntry

WAITING, DECIDED = b"v", b"D"
_BY_A_PERSON = b"p"


def go_on(step: Step, job: Job, *, decided: bool = False) -> None:
    """Let the job in review in this job's scope go on, unless an effect is still in review.

    A job whose code diverged from its finished steps waits for a decision about those.
    The job keeps its place in the queue, its steps and its effects, and the attempt is given back.
    A job without attempts left gets another one only if a person decided, because a call may fail
    late each time.
    """
    waiting = [each for each in in_scope(step, job.scope) if each.status == NEEDS_REVIEW]
    if not waiting:
        return
    asked = [entry for entry in entries(step.ledger, job) if entry.status == REVIEW]
    for each in waiting:
        if asked:
            for entry in filter(lambda found: is_shared(found.scope), asked):
                wait(step, each, entry)
        elif each.cancel_requested:
            end(step, each, CANCELLED)
        elif each.diverged is not None:
            continue
        elif each.end_reason is not None and not decided:
            bury(step, each, DEAD, each.history[-1].error)
        else:
            requeue(step, replace(each, last_error=_own_error(each)), uncount=True)


def known(step: Step, entry: LedgerEntry, *, decided: bool = False) -> None:
    """Let the jobs go on that wait for a shared effect, if its outcome is known now."""
    if entry.status in UNSETTLED:
        return
    effect = join(entry.tenant_id, entry.scope, entry.action)
    if not _let_some_go_on(step, effect, decided=decided):
        step.store.put(DECIDED + effect, _BY_A_PERSON if decided else b"")


def let_others_go_on(step: Step) -> None:
    """Go on with the jobs that waited for effects whose outcomes are known."""
    for key, by in list(islice(step.store.range(DECIDED, after(DECIDED)), 1)):
        effect = key.removeprefix(DECIDED)
        entry = get(step.ledger, *split(effect))
        is_open_again = entry is not None and entry.status in UNSETTLED
        if is_open_again or _let_some_go_on(step, effect, decided=by == _BY_A_PERSON):
            step.store.delete(key)


def _let_some_go_on(step: Step, effect: bytes, *, decided: bool) -> bool:
    """Whether no more jobs wait for the effect than went on now."""
    found = list(islice(_waiting(step, effect), AT_ONCE))
    for key, epoch in found:
        step.store.delete(key)
        job = step.table.get(split(key)[-1])
        if job is not None and not epoch:
            go_on(step, job, decided=decided)
        elif job is not None and job.status == SCHEDULED and epoch == b"%d" % job.epoch:
            requeue(step, job)
    return len(found) < AT_ONCE


def _waiting(step: Step, effect: bytes) -> Iterator[tuple[bytes, bytes]]:
    prefix = WAITING + effect + SEPARATOR
    return step.store.range(prefix, after(prefix))


def wait(step: Step, job: Job, entry: LedgerEntry, epoch: bytes = b"") -> None:
    """Note for which shared effect a job waits; a blocked one with its epoch."""
    step.shared.awaits_effects = True
    step.store.put(_key(job, entry.scope, entry.action), epoch)


def forget_waits(step: Step, job: Job) -> None:
    """Forget for which shared effects a job waited: it has ended, and their outcomes may never come
    to be known."""
    if step.shared.awaits_effects:
        keys = [_key(job, scope, action) for scope, action in shared_ones(step.ledger, job)]
        for key in keys:
            if step.store.get(key) is not None:
                step.store.delete(key)


def _key(job: Job, scope: str, action: str) -> bytes:
    return WAITING + join(job.tenant_id, scope, action, job.job_id)


def _own_error(job: Job) -> str | None:
    """The last error of a job in review that does not ask a person.

    A run that asked is the newest in the history, unless its job's attempts are used up.
    """
    failed = job.history if job.end_reason is not None else job.history[:-1]
    return failed[-1].error if failed else None
