"""One run from its first line to its ending."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import structlog

from streams.errors import PermanentError
from streams.serde.records import Lease
from streams.serde.run_ends import CANCELLED, RETRY
from streams.worker.handler.context import Context
from streams.worker.handler.own_frames import own_stack, own_traceback
from streams.worker.handler.run_result import RunResult, raised, returned, timed_out, unforeseen
from streams.worker.handler.run_session import RunSession
from streams.worker.job_types import JobType, PreflightFunction
from streams.worker.lease.held_leases import GRACE_SECONDS

log = structlog.get_logger(__name__)

ALL_FRAMES = "handler raised: all frames"
"""The text of the debug line that has the worker's frames, too."""
_LOOK_SECONDS = 1.0
_OWNERS = "|".join(each.__name__ for each in Context.__mro__[:-1])
_CALL_OF_CTX = re.compile(rf"(?:{_OWNERS})\.(\w+\(\) .+)")
"""What Python says of a call that does not fit a method."""


def task_name(lease: Lease) -> str:
    """The task name by which the watchdog finds the run that blocks the event loop."""
    return f"{lease.job_id}/{lease.epoch} {lease.type}"


def _told_of_ctx(error: BaseException) -> BaseException:
    """The error; a permanent one for a call of `ctx` with other arguments than it takes."""
    found = _CALL_OF_CTX.match(str(error)) if type(error) is TypeError else None
    if found is None:
        return error
    told = f"ctx.{found[1]}: correct the call, because it would fail so each time"
    return PermanentError(told).with_traceback(error.__traceback__)


def _run_result(task: asyncio.Task[RunResult]) -> RunResult:
    if task.cancelled():
        return RunResult(RETRY, error="CancelledError: the handler cancelled itself")
    return task.result()


class Execution:
    """Runs the handler until it ends, its time is up, or somebody stops it."""

    def __init__(
        self,
        session: RunSession,
        context: Context,
        job: JobType,
        preflight: PreflightFunction | None,
        clock: Callable[[], float],
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._session = session
        self._context = context
        self._job = job
        self._preflight = preflight
        self._clock = clock
        self._grace = grace_seconds

    async def run(self) -> RunResult:
        """How the run ended. The handler's task may outlive it, if it ignores being cancelled."""
        if self._session.is_over() and self._session.verdict:
            return self._session.verdict
        task = asyncio.create_task(self._handle(), name=task_name(self._session.lease))
        self._session.task = task
        await self._watch(task)
        if self._session.verdict:
            await self._wind_up(task)
            return self._session.verdict
        run_result = _run_result(task)
        self._session.stop(run_result)  # tasks that the handler left behind start nothing more
        return run_result

    async def _handle(self) -> RunResult:
        lease = self._session.lease
        structlog.contextvars.bind_contextvars(
            job_id=lease.job_id, run_id=lease.run_id, tenant_id=lease.tenant_id
        )
        try:
            if self._preflight and not await self._preflight(self._context):
                return RunResult(CANCELLED, error="preflight: no longer wanted")
            return returned(await self._job.function(self._context))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # SystemExit too: a handler ends its run, never the worker.
            return self._raised(_told_of_ctx(error))

    def _raised(self, error: BaseException) -> RunResult:
        """The result of a handler that raised; an error that nobody foresaw is logged."""
        if unforeseen(error):
            lease, where = self._session.lease, own_traceback(error)
            log.warning("handler raised", type=lease.type, attempt=lease.attempt, exception=where)
            log.debug(ALL_FRAMES, exc_info=error)
        return raised(error)

    async def _watch(self, task: asyncio.Task[RunResult]) -> None:
        """Wait until the task is done or the run is stopped; stop the run when its time is up."""
        session, lease = self._session, self._session.lease
        either: set[asyncio.Future[Any]] = {task, session.stopped}
        # It counts from the lease, as for the heartbeats, which list the lease until then. Another
        # handler may have blocked the loop since.
        timeout_at = session.held.timeout_at
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
            elif self._clock() >= timeout_at:
                stack = own_stack(task)
                log.warning(
                    "handler timed out", job_id=lease.job_id, type=lease.type, exception=stack
                )
                session.stop(timed_out(lease.timeout_seconds, stack))

    async def _wind_up(self, task: asyncio.Task[RunResult]) -> None:
        """Give a stopped handler a moment for its `finally` blocks and outcomes."""
        await asyncio.wait({task}, timeout=self._grace)
        if not task.done():
            lease = self._session.lease
            log.error(
                "handler ignores that it was cancelled: its slot stays taken",
                job_id=lease.job_id,
                type=lease.type,
                ended=self._session.verdict,
            )
            task.cancel()
