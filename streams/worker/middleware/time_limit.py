"""The timeout of a run."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from streams.serde.records import Lease
from streams.worker.handler.execution import Execution
from streams.worker.handler.own_frames import own_stack
from streams.worker.handler.run_result import RunResult, timed_out
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts

log = structlog.get_logger(__name__)


class TimeLimit(Middleware):
    """Runs what is within it as a task, and cancels that when the job's time is up.

    What stands before it sees the end of a run that was stopped; what stands behind it is
    cancelled. Without it, the end of the lease still stops a run.
    """

    def __init__(self, worker: WorkerParts) -> None:
        self._clock = worker.clock

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """How the run ended by itself, or why it was stopped."""
        return await Execution(run.session, self._clock).run(go_on, partial(_timed_out, run.lease))


def _timed_out(lease: Lease, task: asyncio.Task[RunResult]) -> RunResult:
    """The result of a run whose time is up; it tells where the handler stands."""
    stack = own_stack(task)
    log.warning("handler timed out", job_id=lease.job_id, type=lease.type, exception=stack)
    return timed_out(lease.timeout_seconds, stack)
