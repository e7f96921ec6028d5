"""The spans of leases: each is the parent of its run, in the trace of the job's event.

A lease's span id follows from its job and epoch. So the next lease links to it, whatever became of
the worker, and whichever process makes the next lease. A span is recorded once its lease is
durable.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from opentelemetry.trace import Link

from streams.dispatcher.table import Table
from streams.runtime.link import LINK
from streams.serde.ids import event_job_id
from streams.serde.records import Job
from streams.tracing import carried, spans
from streams.tracing import conventions as names


@dataclass(frozen=True, slots=True)
class Sent:
    """A lease that was sent, `at` in nanoseconds."""

    job: Job
    partition: int
    waited_ms: int
    links: list[Link]
    at: int


def sent(job: Job, partition: int, table: Table) -> Sent:
    """The lease of the run that `job` of a partition has just begun."""
    waited = max(0, job.updated_at - job.ready_at)
    return Sent(job, partition, waited, _to_earlier(job, table), time.time_ns())


def is_traced(job: Job) -> bool:
    """Whether the job's trace is recorded, and by this process, too."""
    return spans.on() and carried.is_sampled(job.traceparent)


def traceparent(job: Job) -> str | None:
    """What the job's lease carries: its own span if the job is traced, else the job's parent."""
    if job.traceparent is None or not is_traced(job):
        return job.traceparent
    return carried.with_span(job.traceparent, carried.lease_span(job.job_id, job.epoch))


def _to_earlier(job: Job, table: Table) -> list[Link]:
    """To the lease before this one, or else to the last lease of the job that is replayed."""
    if job.history or job.attempts > 1:
        before = carried.lease_span(job.job_id, job.epoch - 1)
        return spans.link(job.traceparent, before, names.ATTEMPT_BEFORE)
    replayed = _replayed(job)
    old = None if replayed is None else table.get(replayed)
    if old is None or old.epoch == 0:
        return []
    last = carried.lease_span(old.job_id, old.epoch)
    return spans.link(old.traceparent, last, names.REPLAY_OF)


def _replayed(job: Job) -> str | None:
    """The job whose work this one does again; its event's own, if events are replayed."""
    if job.replay_of is not None:
        return job.replay_of
    if job.replay_id is None or job.event is None:
        return None
    return event_job_id(job.tenant_id, job.event.source, job.event.dedup_key)


def record(sent: Sent) -> None:
    """Record a lease, which is durable now."""
    job = sent.job
    attributes = names.sending(LINK, "tidegate", partition=sent.partition) | {
        names.TENANT: job.tenant_id,
        names.JOB: job.job_id,
        names.JOB_TYPE: job.type,
        names.RUN: job.run_id or "",
        names.WORKER: job.worker_id or "",
        names.ATTEMPT: job.attempts,
        names.EPOCH: job.epoch,
        names.WAITED_MS: sent.waited_ms,
    }
    if job.history:
        attributes[names.LAST_RUN] = job.history[-1].kind
    spans.record(
        carried.context_of(job.traceparent),
        names.send(LINK),
        attributes,
        spans.PRODUCER,
        (sent.at, time.time_ns()),
        sent.links,
        carried.lease_span(job.job_id, job.epoch),
    )
