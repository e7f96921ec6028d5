"""The task of one run, from its first line to its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from streams.errors import LeaseLost
from streams.serde.records import Lease
from streams.serde.run_ends import RETRY
from streams.worker.handler.run_result import RunResult, RunStopped
from streams.worker.handler.run_session import RunSession
from streams.worker.lease.held_leases import GRACE_SECONDS

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0

Code = Callable[[], Coroutine[Any, Any, RunResult]]
OnTimeout = Callable[[asyncio.Task[RunResult]], RunResult]
"""Gives the result of a run whose time is up, while its task still stands where it stood."""


def task_name(lease: Lease) -> str:
    """The task name by which the watchdog finds the run that blocks the event loop."""
    return f"{lease.job_id}/{lease.epoch} {lease.type}"


class Execution:
    """Runs the code of one run as a task until it ends, or until the run is stopped."""

    def __init__(
        self,
        session: RunSession,
        clock: Callable[[], float],
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._session = session
        self._clock = clock
        self._grace = grace_seconds

    async def run(self, code: Code, on_timeout: OnTimeout | None = None) -> RunResult:
        """How the run ended. Its task may outlive it, if that ignores being cancelled.

        Without `on_timeout` it has no time limit of its own, and ends with its lease.
        """
        session = self._session
        if session.is_over() and session.verdict:
            return session.verdict
        if math.isinf(session.held.started_at):  # a suspect that no middleware held back
            session.held.started_at, session.held.waits = self._clock(), False
        task = asyncio.create_task(self._unwound(code), name=task_name(session.lease))
        session.task = task
        await self._watch(task, on_timeout)
        if session.verdict:
            await self._wind_up(task)
            return session.verdict
        run_result = _run_result(task)
        session.stop(run_result)  # tasks that the handler left behind start nothing more
        return run_result

    async def _unwound(self, code: Code) -> RunResult:
        """How the code ended; what unwinds it from a stopped run ends here."""
        try:
            return await code()
        except (RunStopped, LeaseLost):
            if self._session.verdict is None:
                raise
            return self._session.verdict

    async def _watch(self, task: asyncio.Task[RunResult], on_timeout: OnTimeout | None) -> None:
        """Wait until the task is done or the run is stopped; stop the run when its time is up."""
        session = self._session
        either: set[asyncio.Future[Any]] = {task, session.stopped}
        # It counts from the lease, as for the heartbeats, which list the lease until then. Another
        # handler may have blocked the loop since.
        timeout_at = session.held.timeout_at if on_timeout else math.inf
        while not task.done() and not session.stopped.done():
            # Heartbeats move the end of the lease, so read it on every round. The loop's timers
            # stop while the machine is suspended; the clock does not.
            pause = min(timeout_at, session.held.valid_until) - self._clock()
            pause = min(max(0, pause), _LOOK_SECONDS)
            await asyncio.wait(either, timeout=pause, return_when="FIRST_COMPLETED")
            if task.done() or session.stopped.done():
                return
            if self._clock() >= session.held.valid_until:
                session.lose("no heartbeat was acknowledged in time")
            elif on_timeout and self._clock() >= timeout_at:
                session.stop(on_timeout(task))

    async def _wind_up(self, task: asyncio.Task[RunResult]) -> None:
        """Give a stopped handler a moment for its `finally` blocks and outcomes."""
        await asyncio.wait({task}, timeout=self._grace)
        if not task.done():
            lease = self._session.lease
            log.error(
                "handler ignores that it was cancelled: its slot stays taken",
                job_id=lease.job_id,
                type=lease.type,
                ended=self._session.verdict and self._session.verdict.status,
            )
            task.cancel()


def _run_result(task: asyncio.Task[RunResult]) -> RunResult:
    if task.cancelled():
        return RunResult(RETRY, error="CancelledError: the handler cancelled itself")
    return task.result()
