"""Logs how runs ended: each in a line, but a flood of successes as a count."""

from __future__ import annotations

import asyncio

import structlog

from streams.serde.records import Lease
from streams.worker.handler.run_result import RunResult

log = structlog.get_logger(__name__)

LINES_A_SECOND = 20
"""So many successes have a line of their own; a line costs a third of what a short run does."""


class EndedRuns:
    """The log's lines about runs; belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines = self._more = 0
        self._second: asyncio.TimerHandle | None = None

    def tell(self, lease: Lease, run_result: RunResult, seconds: float) -> None:
        """One run has ended, after so many seconds; one that did not succeed always has a line."""
        if run_result.status == "succeeded":
            self._second = self._second or self._loop.call_later(1.0, self.sum_up)
            self._lines += 1
            if self._lines > LINES_A_SECOND:
                self._more += 1
                return
        log.info(
            "run ended", job_id=lease.job_id, type=lease.type, attempt=lease.attempt,
            ended=run_result.status, error=run_result.error, seconds=round(seconds, 3),
        )  # fmt: skip

    def sum_up(self) -> None:
        """The second is over."""
        if self._second is not None:
            self._second.cancel()
        if self._more:
            log.info("more runs ended", runs=self._more, ended="succeeded")
        self._lines = self._more = 0
        self._second = None
