"""Leases ready jobs to workers, and handles leases that the broker refuses.

A lease is not caused by any single record, so leases are sent on their own after the records of a
step. If the broker will never take a lease, only its job becomes a dead letter. If the lease's
topic does not exist, no lease is sent there for a while, and the jobs wait (`pauses`).
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher import history, lease, lease_spans, metrics
from streams.dispatcher.checkpoints import steps_of
from streams.dispatcher.job import begun
from streams.dispatcher.part import Part
from streams.dispatcher.pauses import Pauses
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, follow_topology, wait_for_resume
from streams.dispatcher.workers.credits import Worker
from streams.retry_policy import effective_policy
from streams.serde.ids import new_id
from streams.serde.job_states import DEAD, PENDING
from streams.serde.lease_mac import seal_lease
from streams.serde.records import Job

_AT_ONCE = 500
"""Leases are sent in parts: a transaction of thousands would not end in time. The rest follows with
the next records or punctuation."""


class Leasing(Part):
    """Sends the leases of one partition."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._pauses = Pauses(shared)

    def initiate(self, step: Step) -> Iterator[None]:
        """Lease ready jobs; yields after each job that was leased or dead-lettered."""
        if self.shared.uncounted:
            return
        queue, now = self.shared.queue, step.monotonic
        served: list[str] = []
        sent: set[str] = set()
        for entry, worker in queue.takeable(step.now, now, self._pauses.closed(now)):
            if not served:
                step.ctx.on_commit(self._committed, served, sent)
            served.append(worker.pool)
            job = step.table.get(entry.job_id)
            if job is None or job.status != PENDING:
                continue
            if not self._waits_on(step, job) and step.may_go_on(job):
                sent |= self._lease(step, job, self._willing(job, worker))
                yield
            if len(served) >= _AT_ONCE:
                return

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """Handle a lease that the broker will never take."""
        if not topic.startswith(lease.WORK):
            return
        if missing:
            self._pauses.begin(step, topic.removeprefix(lease.WORK), detail)
            return
        job = step.table.get(key)
        if job is not None and job.status == PENDING:
            error = (
                f"LeaseRefused: the broker does not take its lease ({detail}): bring {topic} in "
                "line as `tidegate topology plan` says, then replay"
            )
            bury(step, job, DEAD, error, reason="lease_refused")

    def closed(self) -> None:
        self._pauses.closed_partition()

    def _committed(self, served: list[str], sent: set[str]) -> None:
        """Note the pools that were served, and those of them to which leases were sent."""
        self.shared.queue.served(served)
        self._pauses.over(sent)

    def _waits_on(self, step: Step, job: Job) -> bool:
        """Whether a job waits on: by another topology, by other limits, or because of a pause."""
        if self.shared.unrouted and follow_topology(step, job):
            return True
        return self.shared.queue.counts_anew(job) or wait_for_resume(step, job)

    def _willing(self, job: Job, worker: Worker) -> Worker:
        """Prefer a worker other than the one that gave the job back last, if one has credits."""
        if not history.came_back_from(job, worker.worker_id):
            return worker
        return self.shared.workers.roster.freest(job.pool, job.type, worker.worker_id) or worker

    def _lease(self, step: Step, job: Job, worker: Worker) -> set[str]:
        """Send a job's lease; the pool that it was sent to, or nothing if it is too large."""
        job, declared = step.begin(job), self.topology.job_type(job.type)
        policy = effective_policy(worker.handlers[job.type], declared, job)
        run = begun(job, new_id("run"), worker.worker_id, policy, step.now)
        finished = () if _is_first(job) else steps_of(step.checkpoints, run)
        made = lease.lease_of(run, worker, finished, self.shared.partition, self.topology.leases)
        sealed = seal_lease(made, self.shared.cluster_key)
        if len(sealed) > lease.largest(self.topology, job.pool):
            error = (
                f"its input and what its {len(finished)} finished steps and waits left make a "
                f"lease of {len(sealed)} bytes: keep them smaller, or let another job go on"
            )
            bury(step, job, DEAD, error, reason="lease_too_large")
            return set()
        topic, key = lease.WORK + job.pool, job.job_id.encode()
        step.ctx.forward(topic, key, sealed, partition=worker.work_partition)
        step.start(run)
        if lease_spans.is_traced(run):
            span = lease_spans.sent(run, worker.work_partition, step.table)
            step.ctx.on_commit(lease_spans.record, span)
        metrics.ATTEMPTS.labels(job.type).inc()
        return {job.pool}


def _is_first(job: Job) -> bool:
    """Whether no run can have left steps: it was never leased, and continues no other job."""
    return job.epoch == 0 and job.replay_of is None
