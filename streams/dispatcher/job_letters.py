"""Makes dead letters of jobs and events that failed for good."""

from __future__ import annotations

from dataclasses import replace

from streams.serde.codec import JOB
from streams.serde.records import DeadLetter, Envelope, Job, Replay

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


def of_replayed(job: Job, replay: Replay, at: int) -> DeadLetter:
    """The dead letter of a job once more, with its replay, made `at` (milliseconds)."""
    return replace(
        of_job(job, job.updated_at, job.end_reason),
        replayed_at=at,
        replayed_as=job.replayed_as,
        replayed_by=replay.submitted_by,
        note=replay.note,
    )


def of_event(
    envelope: Envelope, value: bytes, traceparent: str | None, *,
    partition: int, offset: int, event_time: int, now: int,
) -> DeadLetter:  # fmt: skip
    """The dead letter of an event whose answer named a job, but for which no route came.

    An event that was handed over before its topic had it has no offset (-1); its own id
    distinguishes it.
    """
    headers = {"traceparent": traceparent.encode()} if traceparent else {}
    return DeadLetter(
        id=f"dispatcher:events:{partition}:{offset if offset >= 0 else envelope.event_id}",
        kind="record",
        tenant_id=envelope.tenant_id,
        reason="no_route",
        detail=f"no route matches source {envelope.source!r}, type {envelope.event_type!r}, though "
        "its sender was told of a job: add the route, then replay this record",
        stage="dispatcher",
        at=now,
        topic="events",
        partition=partition,
        offset=offset if offset >= 0 else None,
        key=envelope.tenant_id.encode(),
        value=value,
        traceparent=traceparent,
        timestamp=event_time,
        headers=headers,
    )
