"""The contract of a middleware: what it may do around a run, and what it must pass on.

    outer middleware ─► ... ─► inner middleware ─► handler
                     ◄─ ... ◄─                  ◄─

A middleware keeps these rules (`tests/conformance/middleware` checks them):

- It awaits `go_on` at most once, and returns the result that this gave, or another `RunResult`.
- It lets `CancelledError`, `RunStopped` and `LeaseLost` pass: the run is over, and another one may
  have begun.
- Its instance serves all runs of a worker at the same time, so what belongs to one run is in local
  variables.

An error that it raises ends the run like one of the handler. If the run had failed before, that
earlier error counts.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streams.serde.records import Lease
from streams.worker.handler.run_result import RunResult

if TYPE_CHECKING:
    from streams.worker.app import App
    from streams.worker.handler.context import Context
    from streams.worker.handler.run_session import RunSession
    from streams.worker.lease.heartbeater import Heartbeater
    from streams.worker.lease.held_leases import HeldLeases

GoOn = Callable[[], Coroutine[Any, Any, RunResult]]
"""Goes on with the inner middleware, and at last with the handler."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one job, as a middleware sees it; `ctx` is what the handler gets."""

    lease: Lease
    ctx: Context
    session: RunSession

    @property
    def tenant_id(self) -> str:
        return self.lease.tenant_id

    @property
    def job_id(self) -> str:
        return self.lease.job_id

    @property
    def run_id(self) -> str:
        return self.lease.run_id

    @property
    def job_type(self) -> str:
        return self.lease.type

    @property
    def attempt(self) -> int:
        """1 for the job's first run."""
        return self.lease.attempt


class Middleware:
    """One policy around the runs of a worker; each method does nothing unless a subclass has it."""

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Around one run: await `go_on` once, and return how the run ended."""
        return await go_on()

    def close(self) -> None:
        """The worker ends: it begins no more runs."""


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a middleware that is given as a class gets of the worker that makes it."""

    app: App
    pool: str
    held_leases: HeldLeases
    heartbeater: Heartbeater
    clock: Callable[[], float]
