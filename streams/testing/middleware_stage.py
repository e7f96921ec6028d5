"""A worker without Kafka, around whose runs one middleware is put."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from streams.serde.ids import new_id
from streams.serde.records import Lease
from streams.testing.routing import routed_by_caller
from streams.worker.app import App
from streams.worker.handler.context import Context
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.run_session import RunSession
from streams.worker.lease.held_leases import Held
from streams.worker.link.link import Link
from streams.worker.middleware.contract import EffectCall, Run, WorkerParts
from streams.worker.middleware.stack import Member
from streams.worker.worker import Worker, WorkerSpec

_PATIENCE_SECONDS = 5.0

Code = Callable[[Run], Coroutine[Any, Any, Any]]
"""What stands in the place of the handler, or of the claim and the call of a tool."""
Around = Callable[[Run, Code], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Passing:
    """A run that has begun to pass the middleware, as the task that the worker would cancel."""

    run: Run
    task: asyncio.Task[Any]

    async def error(self) -> BaseException | None:
        """The error with which it ends; None for a result."""
        await within_patience(asyncio.wait({self.task}), "the middleware does not end")
        return None if self.task.cancelled() else self.task.exception()

    async def ends_with(self, kind: type[BaseException]) -> None:
        """Check that the error which ends the run has passed; or the run's own end has."""
        error = await self.error()
        if self.task.cancelled():
            error = asyncio.CancelledError()
        if error is None:
            returned, end = self.task.result(), self.run.session.verdict
            require(returned is end, f"it keeps {kind.__name__} and returns {returned!r}")
        else:
            require(isinstance(error, kind), f"it raises {error!r} in place of {kind.__name__}")


class MiddlewareStage:
    """Leads runs and effects through one middleware, in the present event loop."""

    def __init__(self, member: Member) -> None:
        app, place, clock = App("rules"), WorkerSpec("rules"), time.monotonic
        app.job("rules")(_handler)
        self._worker = Worker(app, _Nowhere(), routed_by_caller(), place, clock=clock)
        held_leases, link = self._worker.held_leases, self._worker.link
        parts = WorkerParts(app, place.pool, held_leases, link, clock)
        self._member = member(parts) if isinstance(member, type) else member

    def new_run(self) -> Run:
        """A run that has just begun, of a job of its own."""
        now = time.monotonic()
        held = Held(_lease(), basis=now, started_at=now, margin=1)
        session = RunSession(held, self._worker.link, time.monotonic, self._worker.redaction)
        return Run(held.lease, self._worker.executor.contexts.make(session), session)

    async def around_run(self, run: Run, code: Code) -> RunResult:
        """What the middleware makes of a run whose handler is `code`."""

        async def go_on() -> RunResult:
            result: RunResult = await code(run)
            return result

        return await self._member.run(run, go_on)

    async def around_effect(self, run: Run, code: Code) -> Any:
        """What the middleware makes of an effect whose claim and call are `code`."""
        effect = EffectCall(run.lease, "payment:refund", "ch_1", {"amount": 1})

        async def go_on() -> Any:
            return await code(run)

        return await self._member.effect(effect, go_on)

    def begin(self, around: Around, code: Code) -> Passing:
        """Begin a run with its task."""
        run = self.new_run()
        task = asyncio.get_running_loop().create_task(around(run, code))
        run.session.task = task
        return Passing(run, task)


def require(holds: bool, otherwise: str) -> None:
    """Raise AssertionError, which says `otherwise`, unless it holds."""
    if not holds:
        raise AssertionError(otherwise)


async def within_patience(what: Awaitable[Any], otherwise: str) -> Any:
    """What comes of it; an AssertionError says `otherwise` if it takes too long."""
    try:
        return await asyncio.wait_for(what, _PATIENCE_SECONDS)
    except TimeoutError:
        raise AssertionError(otherwise) from None


async def _handler(ctx: Context) -> None: ...


class _Nowhere:
    """`Connects` to nobody: what a run says stays with its worker."""

    def start(self, link: Link, failed: Callable[[Exception], None]) -> None: ...

    def close(self) -> None: ...


def _lease() -> Lease:
    return Lease(
        job_id=new_id("job"),
        epoch=1,
        run_id=new_id("run"),
        tenant_id="acme",
        scope="rules",
        type="rules",
        incarnation=1,
        attempt=1,
        max_attempts=5,
        timeout_seconds=60,
        term_seconds=60,
        home_partition=0,
        event=None,
        payload_ref=None,
        input="null",
        workflow_id=None,
        steps=(),
        traceparent=None,
        granted_at=0,
        alone=False,
    )
