"""Logs how runs ended: one line for each, and only a count for a flood of successes."""

from __future__ import annotations

import asyncio

import structlog
from structlog.contextvars import bind_contextvars, reset_contextvars

from streams.serde.records import Lease
from streams.serde.run_ends import PARKED, SUCCEEDED
from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts

log = structlog.get_logger(__name__)

LINES_A_SECOND = 20
"""This many successes get their own line; writing one costs a third of a short run."""


class RunLog(Middleware):
    """Names job, run and tenant in all log lines of a run, and logs how the run ended."""

    def __init__(self, worker: WorkerParts) -> None:
        self._clock = worker.clock
        self._ended = EndedRuns(asyncio.get_running_loop())

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Bind the ids while the run goes on, then write its line."""
        started = self._clock()
        ids = bind_contextvars(job_id=run.job_id, run_id=run.run_id, tenant_id=run.tenant_id)
        try:
            run_result = await go_on()
        finally:
            reset_contextvars(**ids)
        self._ended.tell(run.lease, run_result, self._clock() - started)
        return run_result

    def close(self) -> None:
        """Log how many ends of runs have no line of their own yet."""
        self._ended.sum_up()


class EndedRuns:
    """Writes the log lines about runs; belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines = self._more = 0
        self._second: asyncio.TimerHandle | None = None

    def tell(self, lease: Lease, run_result: RunResult, seconds: float) -> None:
        """Log the end of a run that took `seconds`; one that failed always gets a line."""
        if run_result.status in (SUCCEEDED, PARKED):
            self._second = self._second or self._loop.call_later(1.0, self.sum_up)
            self._lines += 1
            if self._lines > LINES_A_SECOND:
                self._more += 1
                return
        log.info(
            "run ended",
            job_id=lease.job_id,
            type=lease.type,
            attempt=lease.attempt,
            ended=run_result.status,
            error=run_result.error,
            seconds=round(seconds, 3),
        )

    def sum_up(self) -> None:
        """Log the count of the second that is over, and begin the next."""
        if self._second is not None:
            self._second.cancel()
        if self._more:
            log.info("more runs ended", runs=self._more, ended=f"{SUCCEEDED} or {PARKED}")
        self._lines = self._more = 0
        self._second = None
