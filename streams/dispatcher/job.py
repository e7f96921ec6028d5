"""Transitions of a job, as functions from one frozen `Job` to the next.

docs/jobs.md draws the states. Times are in milliseconds, by the broker's time.
"""

from __future__ import annotations

from typing import Any

from streams.limits.places import of_job_alone, of_no_call
from streams.serde.ids import scope_of
from streams.serde.job_states import (
    CANCELLED,
    DUE_LATER,
    ENDED_ON_ENTRY,
    PENDING,
    RUNNING,
    SCHEDULED,
    TERMINAL,
    JobStatus,
)
from streams.serde.records import (
    Handler,
    Job,
    Wake,
)
from streams.serde.replacing import replace


def moved(job: Job, status: JobStatus, now: int, **changes: Any) -> Job:
    """The job in another state, without what only the state before had.

    The places of its calls end with its lease; one that begins has those that it waited for.
    """
    if job.limit_keys and status != RUNNING:
        changes.setdefault("limit_keys", of_job_alone(job.limit_keys))
    return replace(job, status=status, updated_at=now, **ENDED_ON_ENTRY[status] | changes)


def begun(job: Job, run_id: str, worker_id: str, policy: Handler, now: int) -> Job:
    """The job with a new run: a higher epoch and one more attempt, under the present policy."""
    return moved(
        job,
        RUNNING,
        now,
        confirmed=False,
        attempts=job.attempts + 1,
        epoch=job.epoch + 1,
        run_id=run_id,
        worker_id=worker_id,
        max_attempts=policy.max_attempts,
        backoff=policy.backoff,
        timeout_seconds=policy.timeout_seconds,
        code=policy.code,
        code_at_start=policy.code if job.run_id is None else job.code_at_start,
        began_at=now,
    )


def ready(job: Job, now: int, *, error: str | None = None, uncount: bool = False) -> Job:
    """The job back in the queue; `uncount` gives it its attempt and its old place back.

    It also leaves it the places for a call that its run has not made.
    """
    keys = of_no_call(job.limit_keys) if uncount else of_job_alone(job.limit_keys)
    return moved(
        job,
        PENDING,
        now,
        attempts=max(0, job.attempts - uncount),
        last_error=error or job.last_error,
        end_reason=None,
        ready_at=job.ready_at if uncount else now,
        limit_keys=keys,
    )


def retried_at(job: Job, due: int, error: str | None, now: int) -> Job:
    """The job, waiting until `due` for its next attempt."""
    return moved(job, SCHEDULED, now, next_retry_at=due, last_error=error)


def scheduled(job: Job, due: int | None, now: int) -> Job:
    """The job, waiting for its first run until `due`, or until another job has it go on."""
    return moved(job, SCHEDULED, now, scheduled_at=due)


def ended(
    job: Job,
    status: JobStatus,
    now: int,
    *,
    result: str | None = None,
    error: str | None = None,
    reason: str | None = None,
) -> Job:
    """The job in a final state or in `needs_review`; a cancelled job's error is why it was.

    `reason` is a cancelled job's `end_reason`; other jobs have theirs.
    """
    if status == CANCELLED and job.cancel_reason is not None:
        error = f"Cancelled: {job.cancel_reason}" if job.cancel_reason else "Cancelled"
    return moved(
        job,
        status,
        now,
        result=result,
        last_error=error or job.last_error,
        end_reason=reason if status == CANCELLED else job.end_reason,
    )


def wake_of(job: Job, due: int) -> Wake:
    """What a timer that wakes the job at `due` says; a job waits at most once in each epoch."""
    return Wake(job.incarnation, job.epoch, due)


def continued(job: Job, text: str, now: int) -> Job:
    """The job with another input (JSON), as its next incarnation: nothing of its runs is left."""
    incarnation = job.incarnation + 1
    return moved(
        job,
        PENDING,
        now,
        incarnation=incarnation,
        continuations=job.continuations + 1,
        scope=scope_of(job.job_id, incarnation, job.event_time),
        input=text,
        payload_ref=None,
        event_ids=job.all_event_ids if job.events else job.event_ids,
        events=(),
        ready_at=now,
        scheduled_at=None,
        attempts=0,
        resumes=0,
        lost=0,
        lost_alone=0,
        history=(),
        waits=(),
        last_error=None,
        run_id=None,
        code_at_start=None,
        began_at=None,
    )


def awaits(job: Job, wake: Wake) -> bool:
    """Whether the job waits for this timer."""
    return job.status in DUE_LATER and wake == wake_of(job, job.due_at or 0)


def is_live(job: Job) -> bool:
    """Whether the job has not ended."""
    return job.status not in TERMINAL
