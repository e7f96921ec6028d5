"""The lease of one run, as its worker gets it."""

from __future__ import annotations

from streams.dispatcher import attempts
from streams.dispatcher.roster import Worker
from streams.serde.records import Job, Lease
from streams.topology.model import LeasePolicy

MAX_LEASE_BYTES = 900 * 1024
"""A lease, with the input and all finished steps, has to fit a message of 1 MB."""


def lease_of(
    job: Job, worker: Worker, steps: dict[str, str], partition: int, policy: LeasePolicy
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
        checkpoints=steps,
        traceparent=job.traceparent,
        heartbeat_id=worker.heartbeat_id,
        granted_at=job.updated_at,
        alone=attempts.is_suspect(job),
    )
