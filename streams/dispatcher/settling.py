"""A job in review goes on once it is known what became of its effects.

Either a person found out (`Settle`), or the run that made the call tells it late.
"""

from __future__ import annotations

from streams import ledger
from streams.dispatcher import metrics
from streams.dispatcher.lifecycle import Lifecycle
from streams.errors import PoisonRecord
from streams.serde.records import Command, Job, Settle
from streams.topology.model import LeasePolicy


def settle(life: Lifecycle, command: Command, body: Settle, policy: LeasePolicy, at: int) -> None:
    """Record what a person found out, `at` in milliseconds; the job goes on if it can.

    Raises:
        PoisonRecord: it cannot be settled, or not yet; nothing was changed.
    """
    job = life.store.get(command.job_id)
    if job is None or job.tenant_id != command.tenant_id:
        raise PoisonRecord("settle_of_unknown", f"no job {command.job_id} of this tenant")
    term_ms = round(policy.term_seconds * 1000)
    if ledger.settle(life.ctx.store("ledger"), job, body, at=at, now=life.now, term_ms=term_ms):
        go_on(life, job)
    else:
        metrics.TWINS.inc()


def go_on(life: Lifecycle, job: Job) -> None:
    """Let the job of this one's scope that is in review go on, unless an effect still is.

    It keeps its place in the queue, its steps and its effects; the attempt is given back.
    """
    if any(entry.status == "review" for entry in ledger.entries(life.ctx.store("ledger"), job)):
        return
    for each in life.store.in_scope(job.scope):
        if each.status != "needs_review":
            continue
        if each.cancel_requested:
            life.end(each, "cancelled")
        else:
            life.requeue(each, uncount=True)
