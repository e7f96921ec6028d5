"""The lease of a run, as a worker gets it."""

from __future__ import annotations

from streams.dispatcher import history, lease_spans
from streams.dispatcher.workers.credits import Worker
from streams.serde.principals import principal_of
from streams.serde.records import Job, Lease, StepResult
from streams.serde.sizes import MAX_LEASE_BYTES
from streams.topology.model import LeasePolicy, Topology

WORK = "jobs.work."
_OVERHEAD_BYTES = 1024
"""A generous estimate of the bytes that a record and its batch take beside the value."""


def largest(topology: Topology, pool: str) -> int:
    """The most bytes that a lease to a pool may have; the topic's own limit may lower it."""
    topic = topology.topics.get(WORK + pool)
    takes = topic.max_message_bytes - _OVERHEAD_BYTES if topic else MAX_LEASE_BYTES
    return min(MAX_LEASE_BYTES, takes)


def lease_of(
    job: Job, worker: Worker, steps: tuple[StepResult, ...], partition: int, policy: LeasePolicy
) -> Lease:
    """The lease of the run that `job` has just begun on `worker`; `steps` are finished ones."""
    return Lease(
        worker_id=worker.worker_id,
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
        heartbeat_id=worker.heartbeat_id,
        granted_at=job.updated_at,
        alone=history.is_suspect(job),
        number=worker.sent + 1,
        schedule_id=job.schedule_id,
        scheduled_for=job.scheduled_for,
        events=job.events,
        principal=principal_of(job),
    )
