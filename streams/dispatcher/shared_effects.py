"""What the dispatcher does with effects of scopes that jobs share.

The store `parts` keeps `e` time tenant scope action: when to look whether the time of an effect is
over.
"""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher.due import DueSpace
from streams.dispatcher.living_lease import is_held
from streams.dispatcher.review import wait
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import go_on_after, requeue
from streams.serde.effect_scopes import full_action
from streams.serde.records import Job, LedgerEntry

EXPIRES = b"e"
EXPIRIES = DueSpace(EXPIRES)
_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 15.0


def expire_at(step: Step, entry: LedgerEntry, at: int) -> None:
    """Look at `at` (milliseconds) whether a shared effect is kept any longer.

    Each entry in the ledger has one such time.
    """
    step.store.put(EXPIRIES.key(at, entry.tenant_id, entry.scope, entry.action), b"")


def await_effect(step: Step, job: Job, entry: LedgerEntry | None, error: str | None) -> None:
    """Have a job wait for an effect that a run of another job makes, without slot and attempt.

    It goes on when the outcome is recorded (`review.known`). In case there will be none, it also
    asks again after half the time that the call has taken so far, within bounds.
    """
    if entry is None or not is_held(step, entry):
        requeue(step, job, uncount=True)
        return
    waited = (step.now - entry.updated_at) / 1000
    delay = min(max(waited / 2, _SHORTEST_SECONDS), _LONGEST_SECONDS)
    wait(step, job, entry, b"%d" % job.epoch)
    awaited = full_action(entry.scope, entry.action)
    job = replace(job, attempts=max(0, job.attempts - 1), awaits_effect=awaited)
    go_on_after(step, job, delay, error)
