"""Records failed runs in their job: history, losses, suspicion.

A loss means that the worker ended while it held a lease that it had confirmed; it does not count as
an attempt. A job is a suspect after two losses, after three leases that were never confirmed, or
after five releases in a row. A suspect runs alone, so that if its worker ends, the job is the cause
and no other job is lost.
"""

from __future__ import annotations

from dataclasses import replace

from streams.retry_policy import releases_in_a_row
from streams.serde.records import Attempt, Job
from streams.serde.run_ends import FAILED, LOST, TIMEOUT, AttemptKind

KEPT_RUNS = 10
ERROR_CHARS = 300
TRACEBACK_CHARS = 4_100
"""More than a worker sends; another sender's is cut, because each change of a job copies it."""
LOSSES_OF_A_SUSPECT = 2
LOSSES_ALONE = 2
_UNCONFIRMED_OF_A_SUSPECT = 3
_RELEASES_OF_A_SUSPECT = 5
"""A handler that shuts its own worker down is released each time. So is a long run that a rolling
deployment overtakes, but seldom five times in a row: each new worker takes an old one's place."""
_UNCONFIRMED = 0
"""Stands in place of an attempt's number if the worker never confirmed the lease."""
_TIMEOUT = "TimeoutError: ran past its "  # how a worker reports its own timeout


def noted(
    job: Job, kind: AttemptKind, error: str | None, now: int, traceback: str | None = None
) -> Job:
    """The job with its newest run in the history."""
    return _with(job, Attempt(job.attempts, now, job.worker_id, kind, error, traceback, job.code))


def failed(job: Job, error: str | None, now: int, traceback: str | None = None) -> Job:
    """The job with a failed run in the history; it is a timeout if the worker says so."""
    timeout = error is not None and error.startswith(_TIMEOUT)
    return noted(job, TIMEOUT if timeout else FAILED, error, now, traceback)


def came_back_from(job: Job, worker_id: str) -> bool:
    """Whether this worker gave back, or never confirmed, the newest run that did not succeed."""
    return any(
        run.worker_id == worker_id and (run.kind == "released" or run.attempt == _UNCONFIRMED)
        for run in job.history[-1:]
    )


def lost(job: Job, why: str, now: int) -> Job:
    """The job after its worker is gone: the attempt is given back and a loss is counted."""
    return replace(
        noted(job, LOST, why, now),
        attempts=max(0, job.attempts - 1),
        lost=job.lost + 1,
        lost_alone=job.lost_alone + is_suspect(job),
    )


def unconfirmed(job: Job, why: str, now: int) -> Job:
    """The job with an unconfirmed lease in the history; nothing is counted."""
    return _with(job, Attempt(_UNCONFIRMED, now, job.worker_id, LOST, why, code=job.code))


def is_suspect(job: Job) -> bool:
    """Whether the job runs alone."""
    never_confirmed = sum(run.attempt == _UNCONFIRMED for run in job.history)
    return (
        job.lost >= LOSSES_OF_A_SUSPECT
        or never_confirmed >= _UNCONFIRMED_OF_A_SUSPECT
        or releases_in_a_row(job) >= _RELEASES_OF_A_SUSPECT
    )


def is_given_up(job: Job) -> bool:
    """Whether the job has had too many losses; for a job with one attempt, one is too many."""
    return job.lost_alone >= LOSSES_ALONE or job.max_attempts == 1


def _with(job: Job, run: Attempt) -> Job:
    """The job with one more run; only the newest traceback is kept, because they are large."""
    cut = replace(
        run,
        began_at=job.began_at,
        error=run.error and run.error[:ERROR_CHARS],
        traceback=run.traceback and run.traceback[-TRACEBACK_CHARS:],
    )
    earlier = job.history
    if run.traceback:
        earlier = tuple(replace(each, traceback=None) for each in earlier)
    return replace(job, history=(*earlier, cut)[-KEPT_RUNS:])
