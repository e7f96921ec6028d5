"""What becomes of a job whose run failed, or whose lease ended without a word of its worker."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import structlog

from streams import ledger
from streams.dispatcher import history, metrics
from streams.dispatcher.living_lease import has_begun, is_held
from streams.dispatcher.review import go_on
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, end, requeue, retry
from streams.dispatcher.workers.leases import ActiveLease
from streams.retry_policy import loss_delay, retry_delay
from streams.serde.job_states import BY_NAME, CANCELLED, DEAD, NEEDS_REVIEW
from streams.serde.records import Job

log = structlog.get_logger(__name__)


def fail(
    step: Step,
    job: Job,
    error: str | None,
    asked_seconds: float | None,
    traceback: str | None = None,
) -> None:
    """Retry after the backoff; after the last attempt, end, or have unknown effects reviewed."""
    delay = retry_delay(job, asked_seconds)
    failed = history.failed(job, error, step.now, traceback)
    if delay is not None:
        retry(step, failed, delay, error)
        return
    lives = partial(is_held, step)
    asks = ledger.review_unknown(step.ledger, job, step.now, lives=lives)
    advice = asks or ledger.repeatable_unknown(step.ledger, job, step.now, lives=lives)
    told = "; ".join(filter(None, (error, advice))) or None
    if asks is not None:
        failed = replace(failed, end_reason=BY_NAME[DEAD].dead_letter)
        go_on(step, end(step, failed, NEEDS_REVIEW, error=told))
    else:
        bury(step, failed, DEAD, told)


def lose(step: Step, lease: ActiveLease, why: str, reason: str) -> None:
    """End a lease about whose end its worker said nothing; `reason` is a word for the metric."""
    job = step.leased(lease.job_id)
    if job is None or job.epoch != lease.epoch:
        return  # its job has gone on, and the lease with it
    metrics.LEASES_LOST.labels(reason).inc()
    log.warning("lease taken back", job_id=lease.job_id, epoch=lease.epoch, why=why)
    if job.cancel_requested:
        end(step, job, CANCELLED, error=why)
    elif lease.dropped and reason == "expired":
        # Its process did not end. The attempt counts, because the handler may be the cause.
        fail(step, job, f"{why}, and went on without the run", None)
    elif has_begun(step, lease, job):
        _lost_with_worker(step, job, why)
    else:
        requeue(step, history.unconfirmed(job, why, step.now), why, uncount=True)


def _lost_with_worker(step: Step, job: Job, why: str) -> None:
    job = history.lost(job, why, step.now)
    if history.is_given_up(job):
        error = (
            f"WorkerLost: {job.lost} workers ended while they ran it, {job.lost_alone} of them "
            f"running nothing else: mend its handler, then replay; the last: {why}"
        )
        bury(step, job, DEAD, error, "worker_lost")
    else:
        retry(step, job, loss_delay(job), why)
