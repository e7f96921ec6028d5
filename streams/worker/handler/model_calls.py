"""Calls of models by steps: each asks for its places under limits, and has them until its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streams.errors import LeaseLost
from streams.serde.ids import new_id
from streams.serde.records import ClaimStep, Reply, StepFailed
from streams.serde.run_ends import CANCELLED
from streams.worker.handler.asking import ask
from streams.worker.handler.room import asks_again, stopped
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.run_session import RunSession
from streams.worker.link.contract import NEVER
from streams.worker.link.replies import Replies


class ModelCalls:
    """The calls of models that the steps of one run make."""

    def __init__(self, session: RunSession, replies: Replies) -> None:
        self._session = session
        self._replies = replies

    @asynccontextmanager
    async def call(self, step: str, model: str) -> AsyncIterator[str]:
        """Be in a call of a model by a step; gives the id of its claim.

        The value of the step is kept with that id, which ends the call. An error ends it, too.

        Raises:
            RunStopped: a limit has no room for it, or the job is being cancelled.
            LeaseLost: the run is over.
        """
        claim_id = await self._claimed(step, model)
        with self._session.calling():
            try:
                yield claim_id
            except BaseException:
                self._end(claim_id)
                raise

    async def _claimed(self, step: str, model: str) -> str:
        while True:
            claim_id = new_id("clm")
            reply = await self._ask(claim_id, step, model)
            if reply.kind == "granted":
                return claim_id
            if reply.kind != "full" or not await asks_again(self._session):
                raise self._turned_down(reply, step, model)

    async def _ask(self, claim_id: str, step: str, model: str) -> Reply:
        """The answer to a claim; one that is not used, or of which a copy may be, is taken back."""
        run_id, copies, withdrawn = self._session.lease.run_id, 0, False

        def copy() -> ClaimStep:
            nonlocal copies
            copies += 1
            return ClaimStep(claim_id, run_id, step, model)

        def valid_until() -> float:
            return NEVER if withdrawn else self._session.held.valid_until

        try:
            reply = await ask(self._session, self._replies, claim_id, copy, valid_until)
        except (asyncio.CancelledError, LeaseLost):
            withdrawn = True
            self._end(claim_id)
            raise
        if reply.kind == "full" and copies > 1:
            self._end(claim_id)
        return reply

    def _end(self, claim_id: str) -> None:
        self._session.tell(StepFailed(self._session.lease.run_id, claim_id))

    def _turned_down(self, reply: Reply, step: str, model: str) -> BaseException:
        match reply.kind:
            case "full":
                return stopped(self._session, None, model, reply.message)
            case "cancel":
                self._session.stop(RunResult(CANCELLED, error=reply.message or "cancelled"))
            case _:
                self._session.lose(reply.message or "the dispatcher gave the job to another run")
        return LeaseLost(f"step {step} does not begin: the run is over")
