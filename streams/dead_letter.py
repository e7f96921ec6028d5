"""Dead letters: what failed for good, written where an operator looks."""

from __future__ import annotations

from streams.serde.codec import JOB
from streams.serde.records import DeadLetter, Job

REASONS = {
    "dead": "attempts_exhausted",
    "failed": "permanent_error",
}


def of_job(job: Job, now: int, reason: str | None = None) -> DeadLetter:
    """The dead letter of a `failed` or `dead` job; its id is the job's, `now` in milliseconds."""
    return DeadLetter(
        id=job.job_id,
        kind="job",
        tenant_id=job.tenant_id,
        reason=reason or REASONS[job.status],
        detail=job.last_error or "",
        stage="dispatcher",
        at=now,
        value=JOB.encode(job),
        job_id=job.job_id,
        type=job.type,
        status=job.status,
        attempts=job.attempts,
        traceparent=job.traceparent,
    )
