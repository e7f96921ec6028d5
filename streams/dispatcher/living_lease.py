"""Whether a command, or a claim in the ledger, is of the lease that its job has now."""

from __future__ import annotations

from streams.dispatcher import metrics
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import confirm
from streams.dispatcher.workers.leases import ActiveLease
from streams.ledger_entries import has_claimed
from streams.serde.effect_states import CLAIMED
from streams.serde.job_states import LEASED
from streams.serde.records import Claim, Command, Job, LedgerEntry, ReplyKind


def living(step: Step, command: Command, run_id: str, *, last_word: bool = False) -> Job | None:
    """The job if the command speaks for its living lease; this confirms the lease.

    A worker speaks only for its own leases. The last word about a run confirms nothing: its lease
    ends with it. That a claim was made is in the ledger, and need not be in the job, too.
    """
    job = step.leased(command.job_id)
    same = job is not None and (job.epoch, job.run_id) == (command.epoch, run_id)
    if job is None or not same or not is_own(step, job.worker_id):
        metrics.STALE.labels(type(command.body).__name__).inc()
        return None
    if isinstance(command.body, Claim):
        _note_claim(step, job)
        return job
    return job if last_word else confirm(step, job)


def _note_claim(step: Step, job: Job) -> None:
    lease = step.shared.workers.running.get(job.job_id)
    if lease is not None and not lease.claimed:
        lease.claimed = True
        step.on_undo(setattr, lease, "claimed", False)


def has_begun(step: Step, lease: ActiveLease, job: Job) -> bool:
    """Whether the worker of a lease has spoken for its run.

    Of a lease of an earlier process the ledger knows it, too.
    """
    return lease.began or (lease.via is None and has_claimed(step.ledger, job))


def is_own(step: Step, worker_id: str | None) -> bool:
    """Whether this worker sent the present command. Those of topics are from earlier releases."""
    return step.sender is None or step.sender == worker_id


def why_not(step: Step, job: Job | None) -> tuple[ReplyKind, str] | None:
    """The answer to a run that may ask for nothing more; None if it may. Without a lease no job."""
    if job is None:
        return "lost", "the lease of this run is over"
    if job.cancel_requested or job.tenant_id in step.shared.closed.erased:
        return "cancel", "the job is being cancelled"
    return None


def is_held(step: Step, entry: LedgerEntry) -> bool:
    """Whether an effect is claimed by a run that still has its lease."""
    if entry.status != CLAIMED:
        return False
    job = step.table.get(entry.job_id)
    return job is not None and job.status in LEASED and job.run_id == entry.run_id
