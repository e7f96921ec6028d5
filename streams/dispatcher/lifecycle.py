"""The transitions of jobs, each with its effects on record, queue, timer and dead letter."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Literal

import structlog

from streams import dead_letter, ledger
from streams.dispatcher import attempts, jobs, metrics, rerouting
from streams.dispatcher.active_leases import ActiveLease
from streams.dispatcher.closed_tenants import ERASED_REASON, Tenants
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.replies import answer
from streams.dispatcher.run_queue import RunQueue
from streams.errors import LONGEST_WAIT_SECONDS
from streams.retry_policy import loss_delay, release_delay, retry_delay
from streams.runtime.processor import Context
from streams.serde.codec import COMMAND, SCHEDULE
from streams.serde.ids import new_id
from streams.serde.records import Command, Job, JobStatus, Reply, Schedule, Wake
from streams.topology.model import Topology

log = structlog.get_logger(__name__)


class Lifecycle:
    """Applies the transitions of one step of the dispatcher."""

    def __init__(
        self,
        ctx: Context,
        store: JobStore,
        run_queue: RunQueue,
        topology: Topology,
        tenants: Tenants,
    ) -> None:
        self.ctx = ctx
        self.store = store
        self.run_queue = run_queue
        self.now = ctx.now
        self.topology = topology
        self.tenants = tenants

    def place(self, job_id: str, at: int) -> jobs.Generation | None:
        """The place of a job requested at `at` (milliseconds); None if it must not be made.

        A live job keeps twins out even after the window, a finished job only within it. A request
        for an unknown job that is older than the retention of finished jobs was read again: its job
        may have been purged.
        """
        known = self.store.get(job_id)
        if known is None:
            return jobs.FIRST if self.now - at < self.topology.finished_jobs_ms else None
        if jobs.is_live(known) or at - known.event_time < self.topology.window_ms:
            return None
        return jobs.Generation(known.incarnation + 1, known.epoch)

    def enter(self, job: Job) -> None:
        """Put a new job in the queue or on its timer, or end it if its tenant is erased."""
        self.store.put(job)
        if job.tenant_id in self.tenants.erased:
            self.stop(job, ERASED_REASON)
        elif job.status == "scheduled" and job.scheduled_at is not None:
            self._wake_at(job, job.scheduled_at)
        else:
            self.run_queue.ready(job)

    def requeue(self, job: Job, error: str | None = None, *, uncount: bool = False) -> None:
        """Make a job ready again in its present pool; `uncount` gives the attempt back."""
        self._off(job.job_id)
        job = jobs.ready(job, self.now, error=error, uncount=uncount)
        job = rerouting.in_pool(job, self.topology)
        self.store.put(job)
        self.run_queue.ready(job)

    def end(
        self, job: Job, status: JobStatus, *, result: str | None = None, error: str | None = None
    ) -> Job:
        """Move a job to a final state, or to `needs_review`."""
        self._off(job.job_id)
        self.run_queue.unready(job)
        job = jobs.ended(job, status, self.now, result=result, error=error)
        self.store.put(job)
        metrics.ENDED.labels(job.type, status).inc()
        return job

    def stop(self, job: Job, reason: str) -> None:
        """End a job that waits; tell the worker of one that runs to cancel it.

        The first reason stands. The worker is told each time, and in answer to its heartbeats.
        """
        if job.status != "running":
            self.end(replace(job, cancel_reason=reason), "cancelled")
            return
        if not job.cancel_requested:
            job = replace(job, cancel_requested=True, cancel_reason=reason, updated_at=self.now)
            self.store.put(job)
        self.run_queue.registry.cancelled(job)
        worker = self.run_queue.registry.worker(job.worker_id)
        if worker is not None:
            told = job.cancel_reason or reason
            reply = Reply(worker.worker_id, job.job_id, job.epoch, "", "cancel", message=told)
            answer(self.ctx, reply, worker.work_partition)

    def dead_letter(
        self, job: Job, status: Literal["failed", "dead"], error: str | None, reason: str = ""
    ) -> None:
        """End a job and write its dead letter."""
        job = replace(job, end_reason=reason or dead_letter.JOB_REASONS[status])
        job = self.end(job, status, error=error)
        letter = dead_letter.of_job(job, self.now)
        metrics.DEAD_LETTERS.labels(letter.reason).inc()
        log.warning(
            "job is in the dead letters",
            job_id=job.job_id,
            tenant_id=job.tenant_id,
            type=job.type,
            reason=letter.reason,
            error=job.last_error,
        )
        self.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))

    def revive(self, job: Job, note: str) -> None:
        """Make a dead job ready again, with its attempts as they were; its letter says so."""
        letter = dead_letter.of_replayed(job, job.job_id, self.now, note)
        self.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
        job = replace(job, status="pending", end_reason=None, updated_at=self.now)
        job = rerouting.routed(replace(job, ready_at=self.now), self.topology)
        self.store.put(job)
        self.run_queue.ready(job)

    def failed_attempt(
        self,
        job: Job,
        error: str | None,
        asked_seconds: float | None,
        traceback: str | None = None,
    ) -> None:
        """Retry after the backoff; after the last one, end, or have unknown effects reviewed."""
        delay = retry_delay(job, asked_seconds)
        failed = attempts.failed(job, error, self.now, traceback)
        if delay is not None:
            self._retry(failed, delay, error)
            return
        store = self.ctx.store("ledger")
        asks = ledger.review_unknown(store, job, self.now)
        advice = asks or ledger.repeatable_unknown(store, job, self.now)
        told = "; ".join(filter(None, (error, advice))) or None
        if asks is not None:
            failed = replace(failed, end_reason=dead_letter.JOB_REASONS["dead"])
            self.end(failed, "needs_review", error=told)
        else:
            self.dead_letter(failed, "dead", told)

    def given_back(self, job: Job, error: str | None) -> None:
        """Make a job that its worker gave back ready again, at its old place.

        A suspect waits first, since a worker that cannot run it alone would return it at once.
        """
        job = attempts.noted(job, "released", error, self.now)
        if attempts.is_suspect(job):
            job = replace(job, attempts=max(0, job.attempts - 1))
            self._retry(job, release_delay(job), error)
        else:
            self.requeue(job, error, uncount=True)

    def lose(self, lease: ActiveLease, why: str, reason: str) -> None:
        """End a lease about whose end its worker said nothing."""
        job = self.store.get(lease.job_id)
        if job is None or job.status != "running" or job.epoch != lease.epoch:
            known = self.run_queue.registry.running.get(lease.job_id)
            if known is not None and known.epoch == lease.epoch:  # else it has a newer lease
                self._off(lease.job_id)
            return
        lease.unread = not lease.confirmed
        metrics.LEASES_LOST.labels(reason).inc()
        log.warning("lease taken back", job_id=lease.job_id, epoch=lease.epoch, why=why)
        if job.cancel_requested:
            self.end(job, "cancelled", error=why)
        elif lease.dropped and reason == "expired":
            # Its process did not end. The attempt counts, because the handler may be the cause.
            self.failed_attempt(job, f"{why}, and went on without the run", None)
        elif lease.confirmed:
            self._lost_with_worker(job, why, lease)
        elif reason == "expired" and self.run_queue.registry.doubt(lease, self.ctx.monotonic):
            self.requeue(job, why, uncount=True)
        else:
            self.requeue(attempts.unconfirmed(job, why, self.now), why, uncount=True)

    def take_back(self, limit: int) -> None:
        """Take back at most `limit` leases of processes that are gone."""
        for each in self.run_queue.registry.leases.take_back(limit):
            self.lose(each.lease, each.why, each.reason)

    def confirm(self, job_id: str) -> None:
        """Confirm a job's lease, because the worker that holds it spoke for it."""
        lease = self.run_queue.registry.running.get(job_id)
        if lease is not None and not lease.confirmed:
            lease.confirmed = True
            self.run_queue.touch(job_id)
            self.store.confirm(job_id, lease.epoch)

    def reroute(self, job: Job) -> bool:
        """Give a waiting job its present type and pool; False if it already has them."""
        routed = rerouting.routed(job, self.topology)
        if routed == job:
            return False
        if job.status == "pending":
            self.run_queue.unready(job)
            self.run_queue.ready(routed)
        self.store.put(replace(routed, updated_at=self.now))
        return True

    def move(self, job: Job, pool: str) -> None:
        """Move a job to a pool that an operator chose; a running job moves when it waits again."""
        job = replace(job, asked_pool=pool, updated_at=self.now)
        self.store.put(job)
        if job.status in ("pending", "scheduled"):
            self.reroute(job)

    def _lost_with_worker(self, job: Job, why: str, lease: ActiveLease) -> None:
        job = attempts.lost(job, why, self.now)
        if attempts.is_given_up(job):
            error = (
                f"WorkerLost: {job.lost} workers ended while they ran it, {job.lost_alone} of them "
                f"running nothing else: mend its handler, then replay; the last: {why}"
            )
            self.dead_letter(job, "dead", error, "worker_lost")
        else:
            self._retry(job, loss_delay(job), why)

    def _retry(self, job: Job, delay: float, error: str | None) -> None:
        metrics.RETRIES.labels(job.type).inc()
        if not delay > 0:  # a worker's backoff may be NaN
            self.requeue(job, error)
            return
        self._off(job.job_id)
        due = self.now + ceil(min(delay, LONGEST_WAIT_SECONDS) * 1000)
        job = jobs.retried_at(job, due, error, self.now)
        self.store.put(job)
        self._wake_at(job, due)

    def _off(self, job_id: str) -> None:
        lease = self.run_queue.registry.running.get(job_id)
        if lease is not None and lease.confirmed:
            self.store.forget_confirmation(job_id)
        self.run_queue.off(job_id)

    def _wake_at(self, job: Job, due: int) -> None:
        """Have the scheduler wake the job; if the job goes on earlier, its wake is stale."""
        body = Wake(job.attempts, due)
        wake = Command(new_id("cmd"), job.tenant_id, job.job_id, job.incarnation, self.now, body)
        schedule = Schedule(
            # A job waits at most once in each epoch; attempts may be given back and repeat.
            schedule_id=f"{job.job_id}.{job.incarnation}.e{job.epoch}",
            tenant_id=job.tenant_id,
            due_at=due,
            topic="jobs.commands",
            key=job.tenant_id.encode(),
            value=COMMAND.encode(wake),
        )
        self.ctx.forward("schedule", job.tenant_id.encode(), SCHEDULE.encode(schedule))
