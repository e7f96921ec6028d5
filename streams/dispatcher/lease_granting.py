"""Leases ready jobs to workers, and handles leases that the broker refuses.

A lease is not caused by any single record, so leases are sent on their own after the records of a
step. If the broker will never take a lease, only its job becomes a dead letter. If the lease's
topic does not exist, no lease is sent there for a while, and the jobs wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from streams.dispatcher import attempts, lease_spans, metrics
from streams.dispatcher.jobs import begun
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.sweep import Sweep
from streams.dispatcher.worker_credits import Worker
from streams.retry_policy import effective_policy
from streams.runtime.processor import Context
from streams.serde.ids import new_id
from streams.serde.lease_mac import seal_lease
from streams.serde.records import Job, Lease
from streams.serde.sizes import MAX_LEASE_BYTES
from streams.topology.model import LeasePolicy, Topology

log = structlog.get_logger(__name__)


_OVERHEAD_BYTES = 1024
"""A generous estimate of the bytes that a record and its batch take beside the value."""

_WORK = "jobs.work."
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Pause:
    """A pool gets no lease until monotonic `until`; `since` is in milliseconds."""

    since: int
    until: float
    seconds: float
    detail: str


class Leasing:
    """Sends the leases of one partition."""

    def __init__(
        self,
        topology: Topology,
        run_queue: RunQueue,
        sweep: Sweep,
        cluster_key: bytes,
        partition: int,
    ) -> None:
        self._topology = topology
        self._sweep = sweep
        self._run_queue = run_queue
        self._cluster_key = cluster_key
        self._partition = partition
        self._pauses: dict[str, Pause] = {}
        self._sent: set[str] = set()
        self._spans = lease_spans.LeaseSpans()

    def lease_out(self, life: Lifecycle, ctx: Context) -> Iterator[None]:
        """Lease ready jobs; yields after each job that was leased or dead-lettered."""
        now = ctx.monotonic
        closed = {pool for pool, pause in self._pauses.items() if pause.until > now}
        for entry, worker in self._run_queue.takeable(ctx.now, now, closed):
            job = life.store.get(entry.job_id)
            if job is None or job.status != "pending":
                continue
            if not (self._sweep.rerouting and life.reroute(job)):
                self._lease(job, self._willing(job, worker), life, ctx)
            yield

    def refused(self, topic: str, job_id: str, detail: str, missing: bool, life: Lifecycle) -> None:
        """Handle a lease that the broker will never take."""
        pool = topic.removeprefix(_WORK)
        if missing:
            self._pause(pool, detail, life)
            return
        job = life.store.get(job_id)
        if job is not None and job.status == "pending":
            error = (
                f"LeaseRefused: the broker does not take its lease ({detail}): bring {topic} in "
                "line as `tidegate topology plan` says, then replay"
            )
            life.dead_letter(job, "dead", error, reason="lease_refused")

    def committed(self) -> None:
        """Note that the leases sent so far are durable."""
        for pool in self._sent & self._pauses.keys():
            del self._pauses[pool]
            self._observe(pool, 0)
            log.info("leases go to the pool again", pool=pool)
        self._sent.clear()
        self._spans.committed()

    def undone(self) -> None:
        """Take back the leases sent since the last commit, which were aborted."""
        self._sent.clear()
        self._spans.undone()

    def paused(self) -> dict[str, Pause]:
        """Pools whose work topic does not exist."""
        return dict(self._pauses)

    def closed(self) -> None:
        """Clean up, since another process owns the partition now."""
        for pool in self._pauses:
            metrics.PAUSED.remove(str(self._partition), pool)

    def _willing(self, job: Job, worker: Worker) -> Worker:
        """Prefer a worker other than the one that gave the job back last, if one has credits."""
        if not attempts.came_back_from(job, worker.worker_id):
            return worker
        return self._run_queue.registry.freest(job.pool, job.type, worker.worker_id) or worker

    def _lease(self, job: Job, worker: Worker, life: Lifecycle, ctx: Context) -> None:
        declared = self._topology.job_type(job.type)
        policy = effective_policy(worker.handlers[job.type], declared, job)
        waiting, job = job, begun(job, new_id("run"), worker.worker_id, policy, ctx.now)
        steps = life.store.steps(job)
        lease = lease_of(job, worker, steps, self._partition, self._topology.leases)
        sealed = seal_lease(lease, self._cluster_key)
        if len(sealed) > largest_lease(self._topology, job.pool):
            error = f"its input and steps make a lease of {len(sealed)} bytes: keep them smaller"
            life.dead_letter(waiting, "dead", error, reason="lease_too_large")
            return
        topic = _WORK + job.pool
        ctx.forward(topic, job.job_id.encode(), sealed, partition=worker.work_partition)
        life.store.put(job)
        self._run_queue.grant(job, worker)
        self._sent.add(job.pool)
        self._spans.sent(job, worker.work_partition, life.store)
        metrics.ATTEMPTS.labels(job.type).inc()

    def _pause(self, pool: str, detail: str, life: Lifecycle) -> None:
        before = self._pauses.get(pool)
        seconds = min(before.seconds * 2, _LONGEST_PAUSE) if before else _FIRST_PAUSE
        since = before.since if before else life.now
        self._pauses[pool] = Pause(since, life.ctx.monotonic + seconds, seconds, detail)
        self._observe(pool, 1)
        log.error(
            "no lease can be sent: the pool's jobs wait; create the topic as "
            "`tidegate topology plan` says",
            pool=pool,
            detail=detail,
            again_in_seconds=seconds,
        )

    def _observe(self, pool: str, value: int) -> None:
        metrics.PAUSED.labels(str(self._partition), pool).set(value)


def largest_lease(topology: Topology, pool: str) -> int:
    """The most bytes that a lease to a pool may have; the topic's own limit may lower it."""
    topic = topology.topics.get(_WORK + pool)
    takes = topic.max_message_bytes - _OVERHEAD_BYTES if topic else MAX_LEASE_BYTES
    return min(MAX_LEASE_BYTES, takes)


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
        traceparent=lease_spans.traceparent(job),
        heartbeat_id=worker.heartbeat_id,
        granted_at=job.updated_at,
        alone=attempts.is_suspect(job),
        number=worker.sent + 1,
    )
