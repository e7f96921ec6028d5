"""Leases ready jobs to workers.

A lease is not caused by any single record, so leases are sent on their own after the records of a
step. They leave over the link once the step is committed.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher import history, lease, lease_spans, metrics
from streams.dispatcher.checkpoints import steps_of
from streams.dispatcher.job import begun
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, follow_topology, wait_for_resume
from streams.dispatcher.workers.credits import Worker
from streams.retry_policy import effective_policy
from streams.runtime.link import LINK
from streams.serde.ids import new_id
from streams.serde.job_states import DEAD, PENDING
from streams.serde.link import frames
from streams.serde.link.messages import Leased
from streams.serde.records import Job

_AT_ONCE, _BYTES_AT_ONCE = 500, 8 * 1024 * 1024
"""Leases are sent in parts: a transaction of thousands, or of large ones, would not end in time.
The rest follows with the next records or punctuation."""


class Leasing(Part):
    """Sends the leases of one partition."""

    def initiate(self, step: Step) -> Iterator[None]:
        """Lease ready jobs; yields after each job that was leased or dead-lettered."""
        if self.shared.uncounted:
            self.shared.queue.wait_for_nothing()
            return
        queue = self.shared.queue
        served: list[str] = []
        room = _BYTES_AT_ONCE
        for entry, worker in queue.takeable(step.now, step.monotonic):
            if not served:
                step.ctx.on_commit(queue.served, served)
            served.append(worker.pool)
            job = step.table.get(entry.job_id)
            if job is None or job.status != PENDING:
                continue
            if not self._waits_on(step, job) and step.may_go_on(job):
                room -= self._lease(step, job, self._willing(job, worker))
                yield
            if len(served) >= _AT_ONCE or room <= 0:
                break
        queue.wait_for_credits()

    def closed(self) -> None:
        self.shared.workers.closed()

    def _waits_on(self, step: Step, job: Job) -> bool:
        """Whether a job waits on: by another topology, by other limits, or because of a pause."""
        if self.shared.unrouted and follow_topology(step, job):
            return True
        return self.shared.queue.counts_anew(job) or wait_for_resume(step, job)

    def _willing(self, job: Job, worker: Worker) -> Worker:
        """Prefer a worker other than the one that gave the job back last, if one has credits."""
        if not history.came_back_from(job, worker.worker_id):
            return worker
        name = job.pool, job.type, job.tenant_id
        return self.shared.workers.freest(*name, but=worker.worker_id) or worker

    def _lease(self, step: Step, job: Job, worker: Worker) -> int:
        """Send a job's lease, or end the job if it is too large; returns its bytes."""
        job, declared = step.begin(job), self.topology.job_type(job.type)
        policy = effective_policy(worker.handlers[job.type], declared, job)
        run = begun(job, new_id("run"), worker.worker_id, policy, step.now)
        finished = () if _is_first(job) else steps_of(step.checkpoints, run)
        partition = self.shared.partition
        made = lease.lease_of(run, finished, partition, self.topology.leases)
        value = frames.encoded(Leased(partition, worker.beat, made))
        if lease.is_too_large(value):
            error = (
                f"its input and what its {len(finished)} finished steps and waits left make a "
                f"lease of {len(value)} bytes: keep them smaller, or let another job go on"
            )
            bury(step, job, DEAD, error, reason="lease_too_large")
            return len(value)
        step.ctx.forward(LINK, worker.worker_id.encode(), value)
        step.start(run)
        if lease_spans.is_traced(run):
            step.ctx.on_commit(lease_spans.record, lease_spans.sent(run, partition, step.table))
        metrics.ATTEMPTS.labels(metrics.of_type(job.type)).inc()
        return len(value)


def _is_first(job: Job) -> bool:
    """Whether no run can have left steps: it was never leased, and continues no other job."""
    return job.epoch == 0 and job.replay_of is None
