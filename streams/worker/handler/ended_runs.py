"""Logs how runs ended: one line for each, and only a count for a flood of successes."""

from __future__ import annotations

import asyncio

import structlog

from streams.serde.records import Lease
from streams.serde.run_ends import PARKED, SUCCEEDED
from streams.worker.handler.run_result import RunResult

log = structlog.get_logger(__name__)

LINES_A_SECOND = 20
"""This many successes get their own line; writing one costs a third of a short run."""


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
