"""When a failed attempt is tried again."""

from __future__ import annotations

from streams.serde.records import Handler, Job
from streams.topology.model import JobType


def retry_delay(job: Job, asked_seconds: float | None) -> float | None:
    """Seconds until the next attempt of a job whose attempt failed; None: it was the last.

    The handler's `RetryAfter` (`asked_seconds`) wins over the type's backoff, whose last value
    repeats.
    """
    if job.attempts >= job.max_attempts:
        return None
    if asked_seconds is not None:
        return asked_seconds
    if not job.backoff:
        return 0.0
    return job.backoff[min(job.attempts, len(job.backoff)) - 1]


def effective_policy(handler: Handler, declared: JobType, job: Job) -> Handler:
    """The policy of one run: the job's own timeout, then the topology's, then the handler's."""
    timeout = job.asked_timeout_seconds or declared.timeout_seconds or handler.timeout_seconds
    attempts = declared.max_attempts or handler.max_attempts
    return Handler(handler.type, attempts, handler.backoff, timeout)
