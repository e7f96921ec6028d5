"""The contract of a middleware: what it may do around a run or an effect, and what it must pass on.

    outer middleware ─► ... ─► inner middleware ─► handler, or call of the tool
                     ◄─ ... ◄─                  ◄─

A middleware keeps these rules (`streams.testing.middleware_rules` checks them):

- It awaits `go_on` at most once, and returns what that gave, or something of the same kind.
- It lets `CancelledError`, `RunStopped` and `LeaseLost` pass: the run is over, and another one may
  have begun.
- Its instance serves all runs of a worker at the same time, so what belongs to one run is in local
  variables. It keeps nothing of a run that has ended.
- It makes no steps, effects or waits: they would be counted among the handler's.

An error that it raises ends the run like one of the handler, and names the middleware. If the run
had failed before, that earlier error counts.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streams.serde.effect_scopes import JOB
from streams.serde.records import Lease, PolicyObjection
from streams.worker.handler.run_result import RunResult

if TYPE_CHECKING:
    from streams.worker.app import App
    from streams.worker.handler.context import Context
    from streams.worker.handler.run_session import RunSession
    from streams.worker.lease.held_leases import HeldLeases
    from streams.worker.link.link import Link

GoOn = Callable[[], Coroutine[Any, Any, RunResult]]
"""Goes on with the inner middleware, and at last with the handler."""
GoOnWithEffect = Callable[[], Coroutine[Any, Any, Any]]
"""Goes on with the inner middleware, and at last with the claim and the call of the tool."""


class OfLease:
    """The names of a job, its tenant and its run, as its lease has them."""

    __slots__ = ()
    lease: Lease

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

    @property
    def principal(self) -> str:
        """The submitter's name; `source:NAME` or `schedule:ID` if nobody submitted the job."""
        return self.lease.principal


@dataclass(frozen=True, slots=True)
class Run(OfLease):
    """One run of one job; `ctx` is what the handler gets."""

    lease: Lease
    ctx: Context
    session: RunSession


@dataclass(frozen=True, slots=True)
class EffectCall(OfLease):
    """An effect that a handler asks for, with the arguments that its function will get.

    They are not to be changed. If people have approved others than the handler's, it is these.
    `objections` go with the claim.
    """

    lease: Lease
    tool: str
    key: str
    arguments: Mapping[str, Any]
    once_per: str = JOB
    model: str | None = None
    objections: list[PolicyObjection] = field(default_factory=list)

    @property
    def action(self) -> str:
        """The effect's name in the ledger."""
        return f"{self.tool}/{self.key}"

    @property
    def objection(self) -> PolicyObjection | None:
        """What goes with the claim: a denial goes before the wish for an approval."""
        return min(self.objections, key=lambda each: each.decision != "deny", default=None)


class Middleware:
    """One policy around the runs of a worker; each method does nothing unless a subclass has it."""

    def __init__(self, worker: WorkerParts | None = None) -> None:
        """`worker` is given to a class that stands in the stack itself, not to an instance."""

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Around one run: await `go_on` once, and return how the run ended."""
        return await go_on()

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        """Around one effect, before its claim: await `go_on` once, and return its result.

        What it returns is what the handler gets; the ledger keeps what the tool returned. It is
        called each time that a handler asks for the effect, also for one that is done already.
        """
        return await go_on()

    def close(self) -> None:
        """A worker ends: it begins no more runs."""


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a class in the stack gets of the worker that makes its instance."""

    app: App
    pool: str
    held_leases: HeldLeases
    link: Link
    clock: Callable[[], float]
