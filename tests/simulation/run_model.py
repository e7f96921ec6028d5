"""One run of a scripted handler, under the rules of `streams/worker`, as a coroutine of ticks.

It starts nothing once its lease is no longer valid or somebody has ended it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulation import run_calls
from simulation.handlers import SCRIPTS, code_of, fate
from simulation.run_approvals import Asking
from simulation.run_calls import Answered, Ticks
from simulation.run_children import Below
from simulation.run_effects import Effects
from simulation.run_models import MODELS, Models
from streams.redaction.redaction import Redaction
from streams.serde.records import CommandBody, Ended, Lease, Reply, Wait
from streams.worker.handler.history import History
from streams.worker.lease.held_leases import Held

if TYPE_CHECKING:
    from simulation.worker_model import WorkerModel


class RunModel:
    """`verdict` says how somebody else ended the run, `over` that nothing is left to say of it."""

    def __init__(self, worker: WorkerModel, held: Held) -> None:
        self.worker = worker
        self.held = held
        self.over = False
        self.verdict: str | None = None
        self.redaction = Redaction()
        self.history = History(held.lease.steps, code_of(worker.version))
        self.asking = Asking(self)
        self.traceparent: str | None = None
        self._below = Below(self)
        self._effects = Effects(self)
        self._models = Models(self)
        self._why = ""
        self._ticks: Ticks = self._handle()

    @property
    def lease(self) -> Lease:
        return self.held.lease

    @property
    def running(self) -> bool:
        """Whether it has a slot."""
        return self.held.running

    @property
    def started(self) -> bool:
        return self.held.started_at != math.inf

    @property
    def active(self) -> bool:
        """Whether it may begin something now."""
        valid = self.worker.seconds < self.held.valid_until
        return self.running and self.started and self.verdict is None and valid

    @property
    def calls(self) -> str | None:
        """The tool that is being called."""
        return self._effects.calls

    @property
    def asks(self) -> str | None:
        """The model that is being called."""
        return self._models.calls

    def busy(self) -> AbstractContextManager[None]:
        """`RunSession.busy`: a run of this model does one thing at a time."""
        return nullcontext()

    def stop(self, verdict: str, why: str = "") -> None:
        """End the run; the first verdict stands."""
        if self.verdict is None and self.running:
            self.verdict, self._why = verdict, why
            self.worker.tell("stops", self.lease.job_id, self.lease.epoch, verdict, why)

    def answered(self, reply: Reply) -> None:
        self._effects.answered(reply)
        self._models.answered(reply)
        self._below.answered(reply)

    def advance(self) -> None:
        """As far as it gets without time passing."""
        now = self.worker.seconds
        if self.running and now >= self.held.valid_until:
            self.stop("lost", "no heartbeat was acknowledged in time")
        elif self.running and now >= self.held.timeout_at:
            self.stop("retry", "TimeoutError: it ran too long")
        if self.running and self.verdict is not None:
            self._interrupted(self.verdict)
        if self.started or self.verdict is not None or not self.running:
            next(self._ticks, None)

    def _interrupted(self, verdict: str) -> None:
        self._effects.interrupted()
        self._models.interrupted()
        if verdict == "lost":
            self.worker.held_leases.vacate(self.held)
            self.worker.lost(self.lease)
            self._ticks, self.over = _nothing(), True
        else:
            self._ticks = self.end(verdict, self._why)

    def _handle(self) -> Ticks:
        script = SCRIPTS[self.lease.type]
        while self.worker.seconds < self.held.started_at + script.seconds:
            yield
        for action in script.version(self.worker.version):
            if action == "die":
                self.worker.killed_by(self.lease)
                return
            if not (yield from self._do(action)):
                return
        yield from self.end(*fate(self.worker.dice, self.lease))

    def _do(self, action: str) -> Answered:
        kind, _, what = action.partition(":")
        match kind:
            case "step":
                return run_calls.step(self, what)
            case "wait":
                return run_calls.wait(self)
            case "race":
                return run_calls.race(self, what)
            case "ask":
                return self.asking.ask(what)
            case "grow":
                return self._below.grow()
            case _:
                return self._effects.effect(action)

    def thinks(self, step: str, function: str) -> Generator[None, None, str | None]:
        """Call the model of a function, if it has one: the claim; None if the run has ended."""
        model = MODELS.get(function)
        if model is None or not self.worker.world.has_models:
            return ""
        claim_id = yield from self._models.begin(step, model)
        if claim_id is not None:
            self._models.over()
        return claim_id

    def park(self, *waits: Wait) -> Ticks:
        """Have the job wait for the first of these."""
        group = tuple(replace(wait, group=0) for wait in waits)
        yield from self.end("parked", "", waits=group)

    def end(
        self,
        status: str,
        error: str,
        *,
        result: str | None = None,
        waits: tuple[Wait, ...] = (),
        diverged: str | None = None,
    ) -> Ticks:
        """Tell how it ended; nothing else of this run follows."""
        told: Any = status
        worker = self.worker
        worker.world.spoke(self.lease, status)
        worker.held_leases.vacate(self.held)
        ended = Ended(
            self.lease.run_id,
            told,
            '"ok"' if status == "succeeded" else result,
            error or None,
            None,
            traceback=None,
            diverged=diverged,
            waits=waits,
        )
        worker.link.tell()
        if not (yield from self.said(ended, lambda: self.held.valid_until)):
            worker.lost(self.lease)
        self.over = True

    def said(self, body: CommandBody, until: Callable[[], float]) -> Answered:
        """Wait until it is durable; a run that cannot say it is lost."""
        state: list[bool] = []
        self.worker.post(self.lease, body, until, state.append)
        while not state:
            yield
        if not state[0]:
            self.stop("lost", f"{type(body).__name__} could not be sent in time")
            if self.running:
                yield
        return state[0]


def _nothing() -> Ticks:
    yield from ()
