"""When an attempt that failed, or was lost with its worker, is repeated.

Every wait has a spread, so that jobs that failed together do not come back together. The spread
depends only on the job and its run, so that it is the same after an aborted transaction.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import takewhile

from streams.serde.records import Handler, Job
from streams.serde.run_ends import RELEASED
from streams.topology.model import JobType

_SPREAD = 0.25
_SPREAD_OF_ASKED = 0.1
_FIRST_LOSS_SECONDS = 5.0
_LONGEST_LOSS_SECONDS = 300.0


def retry_delay(job: Job, asked_seconds: float | None) -> float | None:
    """Seconds until the next attempt after a failed one; None if the failed one was the last.

    The handler's `RetryAfter` (`asked_seconds`) takes precedence over the type's backoff, whose
    last value repeats. The spread shortens neither: it adds up to a quarter to a backoff, and up to
    a tenth to a `RetryAfter`.
    """
    if job.attempts >= job.max_attempts:
        return None
    if asked_seconds is not None and asked_seconds >= 0:  # a worker may say NaN
        return _spread(asked_seconds, _SPREAD_OF_ASKED, job)
    if not job.backoff:
        return 0.0
    return _spread(job.backoff[min(job.attempts, len(job.backoff)) - 1], _SPREAD, job)


def loss_delay(job: Job) -> float:
    """Seconds until a job that was lost with its worker is leased again; `job.lost` counts."""
    return _doubled(job.lost, job)


def release_delay(job: Job) -> float:
    """Seconds until a job that workers gave back is leased again; its `history` has their runs."""
    return _doubled(releases_in_a_row(job), job)


def releases_in_a_row(job: Job) -> int:
    """How many of the job's newest runs their workers gave back, as far as its history goes."""
    return sum(1 for _ in takewhile(lambda run: run.kind == RELEASED, reversed(job.history)))


def effective_policy(handler: Handler, declared: JobType, job: Job) -> Handler:
    """The policy of one run: the job's own timeout, then the topology's, then the handler's."""
    timeout = job.asked_timeout_seconds or declared.timeout_seconds or handler.timeout_seconds
    attempts = declared.max_attempts or handler.max_attempts
    return Handler(handler.type, attempts, handler.backoff, timeout, handler.code)


def _doubled(times: int, job: Job) -> float:
    doublings = min(max(times - 1, 0), 16)
    return _spread(min(_FIRST_LOSS_SECONDS * 2**doublings, _LONGEST_LOSS_SECONDS), _SPREAD, job)


def _spread(seconds: float, most: float, job: Job) -> float:
    run = f"{job.job_id}.{job.attempts + job.lost}"
    drawn = int.from_bytes(blake2b(run.encode(), digest_size=4).digest()) / 2**32
    return seconds * (1 + most * drawn)
