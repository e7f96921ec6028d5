"""The lease of a run, as a worker gets it."""

from __future__ import annotations

from streams.dispatcher import history, lease_spans
from streams.serde.principals import principal_of
from streams.serde.records import Job, Lease, StepResult
from streams.serde.sizes import MAX_LEASE_BYTES
from streams.topology.model import LeasePolicy


def is_too_large(value: bytes) -> bool:
    """Whether a lease that is encoded has too much content.

    Texts of JSON within it are longer than they are by a backslash for each quotation mark.
    """
    return len(value) - value.count(b"\\") > MAX_LEASE_BYTES


def lease_of(job: Job, steps: tuple[StepResult, ...], partition: int, policy: LeasePolicy) -> Lease:
    """The lease of the run that `job` has just begun; `steps` are finished ones."""
    return Lease(
        job_id=job.job_id,
        epoch=job.epoch,
        run_id=job.run_id or "",
        tenant_id=job.tenant_id,
        scope=job.scope,
        type=job.type,
        incarnation=job.incarnation,
        attempt=job.attempts,
        max_attempts=job.max_attempts,
        timeout_seconds=job.timeout_seconds,
        term_seconds=policy.term_seconds,
        home_partition=partition,
        event=job.event,
        payload_ref=job.payload_ref,
        input=job.input,
        workflow_id=job.workflow_id,
        steps=steps,
        traceparent=lease_spans.traceparent(job),
        granted_at=job.updated_at,
        alone=history.is_suspect(job),
        schedule_id=job.schedule_id,
        scheduled_for=job.scheduled_for,
        events=job.events,
        principal=principal_of(job),
    )
