"""The transitions of jobs that have an effect beside the job: a timer, a dead letter, a reply."""

from __future__ import annotations

from math import ceil

import structlog

from streams import dead_letter
from streams.dispatcher import history, job, metrics, routing
from streams.dispatcher.step import Step
from streams.errors import LONGEST_WAIT_SECONDS
from streams.new_jobs import FIRST, Generation
from streams.retry_policy import release_delay
from streams.serde.ids import new_id
from streams.serde.job_states import (
    BY_NAME,
    CANCELLED,
    LEASED,
    PENDING,
    SCHEDULED,
    TERMINAL,
    JobStatus,
)
from streams.serde.records import Command, Job, Reply
from streams.serde.replacing import replace
from streams.serde.run_ends import RELEASED

log = structlog.get_logger(__name__)


def place(step: Step, job_id: str, at: int) -> Generation | None:
    """The place of a job requested at `at` (milliseconds); None if it must not be made.

    A live job keeps twins out even after the window, a finished job only within it. A request
    for an unknown job that is older than the retention of finished jobs was read again: its job
    may have been purged.
    """
    known = step.table.get(job_id)
    if known is None:
        return FIRST if step.now - at < step.topology.finished_jobs_ms else None
    if job.is_live(known) or at - known.event_time < step.topology.window_ms:
        return None
    return Generation(known.incarnation + 1, known.epoch)


def requeue(step: Step, of: Job, error: str | None = None, *, uncount: bool = False) -> None:
    """Make a job ready again in its present pool; `uncount` gives the attempt back."""
    ready = job.ready(of, step.now, error=error, uncount=uncount)
    step.table.put(routing.in_pool(ready, step.topology))


def retry(step: Step, of: Job, delay: float, error: str | None) -> None:
    """Try a job again after `delay` seconds."""
    metrics.RETRIES.labels(metrics.of_type(of.type)).inc()
    if delay > 0:
        go_on_after(step, of, delay, error)
    else:  # a worker's backoff may be NaN
        requeue(step, of, error)


def go_on_after(step: Step, of: Job, delay: float, error: str | None) -> None:
    """Make a job ready again after `delay` seconds, more than 0."""
    due = step.now + ceil(min(delay, LONGEST_WAIT_SECONDS) * 1000)
    step.table.put(job.retried_at(of, due, error, step.now))
    wake_at(step, of, due)


def give_back(step: Step, of: Job, error: str | None) -> None:
    """Make a job that its worker gave back ready again, at its old place.

    A suspect waits first, since a worker that cannot run it alone would return it at once.
    """
    of = history.noted(of, RELEASED, error, step.now)
    if history.is_suspect(of):
        of = replace(of, attempts=max(0, of.attempts - 1))
        retry(step, of, release_delay(of), error)
    else:
        requeue(step, of, error, uncount=True)


def end(
    step: Step,
    of: Job,
    status: JobStatus,
    *,
    result: str | None = None,
    error: str | None = None,
    reason: str | None = None,
) -> Job:
    """Move a job to a final state, or to `needs_review`."""
    ended = job.ended(of, status, step.now, result=result, error=error, reason=reason)
    if status in TERMINAL:
        step.end(ended)
        ended = step.table.get(ended.job_id) or ended
    else:
        step.table.put(ended)
    metrics.ENDED.labels(metrics.of_type(ended.type), status).inc()
    return ended


def bury(step: Step, of: Job, status: JobStatus, error: str | None, reason: str = "") -> None:
    """End a job as failed or dead, and write its dead letter."""
    of = replace(of, end_reason=reason or BY_NAME[status].dead_letter)
    ended = end(step, of, status, error=error)
    letter = dead_letter.of_job(ended, step.now)
    log.warning(
        "job is in the dead letters",
        job_id=ended.job_id,
        tenant_id=ended.tenant_id,
        type=ended.type,
        reason=letter.reason,
        error=ended.last_error,
    )
    step.bury(letter)


def stop(step: Step, of: Job, reason: str) -> None:
    """End a job that waits; tell the worker of one that runs to cancel it.

    The first reason stands. The worker is told each time, and in answer to its heartbeats.
    """
    if of.status not in LEASED:
        if of.status == SCHEDULED:
            end_timer(step, of)
        end(step, replace(of, cancel_reason=reason), CANCELLED)
        return
    if not of.cancel_requested:
        of = replace(of, cancel_requested=True, cancel_reason=reason, updated_at=step.now)
        step.table.put(of)
    worker_id = of.worker_id or ""
    if step.shared.workers.roster.get(worker_id) is not None:
        told, run_id = of.cancel_reason or reason, of.run_id or ""
        reply = Reply(of.job_id, of.epoch, "", "cancel", message=told, run_id=run_id)
        step.tell(worker_id, reply)


def withdraw(step: Step, of: Job, why: str, reason: str) -> Job:
    """Cancel a job that has not begun; `reason` is one word on why."""
    if of.status == SCHEDULED:
        end_timer(step, of)
    return end(step, replace(of, cancel_reason=why), CANCELLED, reason=reason)


def confirm(step: Step, of: Job) -> Job:
    """Confirm a job's lease, because the worker that holds it spoke for it."""
    if not of.confirmed:
        of = replace(of, confirmed=True)
        step.table.put(of)
    return of


def follow_topology(step: Step, of: Job) -> bool:
    """Give a waiting job its present type and pool; False if it already has them."""
    routed = _routed(step, of)
    if routed == of:
        return False
    step.table.put(replace(routed, updated_at=step.now))
    return True


def wait_for_resume(step: Step, of: Job) -> bool:
    """Have a job wait by a mark if its source is paused; False if it is not, or does already."""
    marked = step.shared.queue.paused.marked(of)
    if marked == of:
        return False
    step.table.put(replace(marked, updated_at=step.now))
    return True


def revive(step: Step, of: Job, note: str) -> None:
    """Make a dead job ready again, with its attempts as they were; its letter says so."""
    step.dead_letter(dead_letter.of_replayed(of, of.job_id, step.now, note))
    ready = job.moved(of, PENDING, step.now, end_reason=None, ready_at=step.now)
    step.revive(_routed(step, ready))


def wake_at(step: Step, of: Job, due: int) -> None:
    """Have the scheduler wake the job; if the job goes on earlier, its wake is stale."""
    wake = Command(new_id("cmd"), of.tenant_id, of.job_id, 0, step.now, job.wake_of(of, due))
    step.timer(_timer_of(of), due, wake)


def end_timer(step: Step, of: Job) -> None:
    """Have the scheduler forget the timer of a job that is scheduled, if it has one."""
    if of.due_at:
        step.drop_timer(of.tenant_id, _timer_of(of))


def _timer_of(of: Job) -> str:
    return f"{of.job_id}.{of.incarnation}.e{of.epoch}"


def _routed(step: Step, of: Job) -> Job:
    return routing.routed(of, step.topology, step.shared.limits_of(of.tenant_id))
