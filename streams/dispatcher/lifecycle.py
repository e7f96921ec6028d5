"""The transitions of jobs, each with all that belongs to it: record, board, timer, dead letter."""

from __future__ import annotations

from typing import Literal

import structlog

from streams import dead_letter
from streams.dispatcher import jobs, metrics
from streams.dispatcher.board import Board
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.leases import Running
from streams.errors import LONGEST_WAIT_SECONDS
from streams.retry_policy import retry_delay
from streams.runtime.processor import Context
from streams.serde.codec import COMMAND, DEAD_LETTER, SCHEDULE
from streams.serde.ids import new_id
from streams.serde.records import Command, Job, JobStatus, Schedule, Wake

log = structlog.get_logger(__name__)


class Lifecycle:
    """What can happen to a job in one step of the dispatcher."""

    def __init__(self, ctx: Context, store: JobStore, board: Board, window_ms: int) -> None:
        self.ctx = ctx
        self.store = store
        self.board = board
        self.now = ctx.now
        self._window_ms = window_ms

    def place(self, job_id: str, at: int) -> jobs.Place | None:
        """Of a job asked for at `at` (milliseconds); None: the one that is known stands for it.

        A live job keeps twins out even past the window, a finished one within it.
        """
        known = self.store.get(job_id)
        if known is None:
            return jobs.FIRST
        if jobs.is_live(known) or at - known.event_time < self._window_ms:
            return None
        return jobs.Place(known.incarnation + 1, known.epoch)

    def enter(self, job: Job) -> None:
        """A new job: to the queue, or to its timer."""
        self.store.put(job)
        if job.status == "scheduled" and job.scheduled_at is not None:
            self._wake_at(job, job.scheduled_at)
        else:
            self.board.ready(job)

    def requeue(self, job: Job, error: str | None = None, *, uncount: bool = False) -> None:
        """Back among the ready jobs; `uncount` gives the attempt back."""
        self.board.off(job.job_id)
        job = jobs.ready(job, self.now, error=error, uncount=uncount)
        self.store.put(job)
        self.board.ready(job)

    def end(
        self, job: Job, status: JobStatus, *, result: str | None = None, error: str | None = None
    ) -> Job:
        """To a final state, or to `needs_review`."""
        self.board.off(job.job_id)
        self.board.unready(job)
        job = jobs.ended(job, status, self.now, result=result, error=error)
        self.store.put(job)
        metrics.ENDED.labels(job.type, status).inc()
        return job

    def bury(
        self, job: Job, status: Literal["failed", "dead"], error: str | None, reason: str = ""
    ) -> None:
        """To the dead letters."""
        job = self.end(job, status, error=error)
        letter = dead_letter.of_job(job, self.now, reason or None)
        metrics.DEAD_LETTERS.labels(letter.reason).inc()
        log.warning(
            "job is in the dead letters", job_id=job.job_id, tenant_id=job.tenant_id,
            type=job.type, reason=letter.reason, error=job.last_error,
        )  # fmt: skip
        self.ctx.forward("dlq", job.job_id.encode(), DEAD_LETTER.encode(letter))

    def bury_unknown(self, job_id: str, pool: str, known: list[str]) -> None:
        """Nobody handles the job's type."""
        job = self.store.get(job_id)
        if job is None or job.status != "pending":
            return
        error = (
            f"UnknownJobType: no worker of pool {pool!r} handles {job.type!r} "
            f"(handled there: {', '.join(known) or 'nothing'}): deploy its handler or mend the "
            "route, then replay"
        )
        self.bury(job, "dead", error, reason="unknown_type")

    def failed_attempt(self, job: Job, error: str | None, asked_seconds: float | None) -> None:
        """Try again after the backoff, or give up."""
        delay = retry_delay(job, asked_seconds)
        if delay is None:
            self.bury(job, "dead", error)
            return
        metrics.RETRIES.labels(job.type).inc()
        if delay <= 0:
            self.requeue(job, error)
            return
        self.board.off(job.job_id)
        due = self.now + round(min(delay, LONGEST_WAIT_SECONDS) * 1000)
        job = jobs.retried_at(job, due, error, self.now)
        self.store.put(job)
        self._wake_at(job, due)

    def lose(self, lease: Running, why: str, reason: str) -> None:
        """A lease is over without a word from its worker."""
        metrics.LEASES_LOST.labels(reason).inc()
        log.warning("lease taken back", job_id=lease.job_id, epoch=lease.epoch, why=why)
        job = self.store.get(lease.job_id)
        if job is None or job.status != "running" or job.epoch != lease.epoch:
            self.board.off(lease.job_id)
        elif job.cancel_requested:
            self.end(job, "cancelled", error=why)
        elif job.attempts >= job.max_attempts:
            self.bury(job, "dead", why)
        else:
            metrics.RETRIES.labels(job.type).inc()
            self.requeue(job, why)

    def _wake_at(self, job: Job, due: int) -> None:
        """Only the scheduler waits; what it sends back is stale if the job went on meanwhile."""
        wake = Command(
            new_id("cmd"), job.tenant_id, job.job_id, job.incarnation, self.now, Wake(job.attempts)
        )
        schedule = Schedule(
            schedule_id=f"{job.job_id}.{job.incarnation}.{job.attempts}",
            tenant_id=job.tenant_id,
            due_at=due,
            topic="jobs.commands",
            key=job.tenant_id.encode(),
            value=COMMAND.encode(wake),
        )
        self.ctx.forward("schedule", job.tenant_id.encode(), SCHEDULE.encode(schedule))
