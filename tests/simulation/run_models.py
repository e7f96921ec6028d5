"""The calls of models that the steps of a run make: each is claimed before its function begins."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import orjson

from simulation.run_asking import ask
from streams.serde.ids import new_id
from streams.serde.records import ClaimStep, Reply, StepFailed

if TYPE_CHECKING:
    from simulation.run_model import RunModel

MODELS = {"draft": "gpt"}
"""Functions of steps that call a model, in stories in which a limit counts its calls."""


class Models:
    """The claim of a step, the answer to it, and which model is being called."""

    def __init__(self, run: RunModel) -> None:
        self._run = run
        self._claim: ClaimStep | None = None
        self._reply: Reply | None = None
        self.calls: str | None = None

    def answered(self, reply: Reply) -> None:
        if self._claim is not None and self._claim.claim_id == reply.claim_id:
            self._reply = self._reply or reply

    def interrupted(self) -> None:
        """The handler is cancelled, and its call with it."""
        claim, self._claim, self.calls = self._claim, None, None
        if claim is not None:
            self._end(claim)

    def begin(self, step: str, model: str) -> Generator[None, None, str | None]:
        """Be in a call from now on: the id of its claim; None if the run has ended."""
        worker, lease = self._run.worker, self._run.lease
        claim = ClaimStep(new_id("clm"), lease.run_id, step, model)
        reply = yield from self._ask(claim)
        if reply.kind != "granted":
            self._claim = None
            yield from self._turned_down(reply, model)
            return None
        self.calls = model
        worker.world.asks(lease, model)
        for _ in range(worker.dice.of("thinks", lease.job_id, lease.epoch).choice((0, 0, 1, 3))):
            yield
        return claim.claim_id

    def over(self) -> None:
        """The function of the step has returned."""
        self._claim, self.calls = None, None

    def _ask(self, claim: ClaimStep) -> Generator[None, None, Reply]:
        self._claim, self._reply = claim, None
        copies = yield from ask(self._run, claim, lambda: self._reply, lambda: self._claim is claim)
        assert self._reply is not None
        if self._reply.kind == "full" and copies > 1:  # another copy may be granted later
            self._end(claim)
        return self._reply

    def _turned_down(self, reply: Reply, model: str) -> Generator[None, None, None]:
        run = self._run
        match reply.kind:
            case "full":
                asked = orjson.dumps([None, model]).decode()
                yield from run.end("full", reply.message, result=asked)
            case "cancel":
                yield from run.end("cancelled", reply.message)
            case _:
                run.stop("lost", reply.message)
                yield

    def _end(self, claim: ClaimStep) -> None:
        run = self._run
        ended = StepFailed(claim.run_id, claim.claim_id)
        run.worker.post(run.lease, ended, lambda: run.held.expires_at)
