"""Claims of effects: a run asks the ledger, and takes a claim back that it does not use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from streams.errors import LeaseLost
from streams.serde import effect_states
from streams.serde.effect_scopes import JOB
from streams.serde.effect_states import OutcomeStatus
from streams.serde.ids import new_id
from streams.serde.records import Claim, Outcome, Reply
from streams.tracing import conventions as names
from streams.tracing.spans import child, exemplar, note
from streams.worker import metrics
from streams.worker.handler.asking import ask
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import digest
from streams.worker.job_types import Tool
from streams.worker.link.contract import NEVER
from streams.worker.link.replies import Replies
from streams.worker.middleware.contract import EffectCall

_OVER = ("cancel", "lost")
"""The answer to a copy of a claim whose run is over: an earlier copy may have been granted."""
_NO_FOR_NOW = ("busy", "held", "full", "approval", "denied", "refused")
"""Another call, a person who approves or a new topology may change these answers before a copy is
read."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """What all claims of one run share: the declared tools by name, and the scopes of its type."""

    tools: Mapping[str, Tool]
    scopes: frozenset[str] | None


class Claims:
    """The claims of one run."""

    def __init__(self, session: RunSession, replies: Replies, claimant: Claimant) -> None:
        self._session = session
        self._replies = replies
        self._claimant = claimant

    def make(self, tool: Tool, effect: EffectCall) -> Claim:
        """The claim of an effect."""
        action, once_per = effect.action, effect.once_per
        return Claim(
            claim_id=new_id("clm"),
            run_id=self._session.lease.run_id,
            action=action,
            digest=digest(effect.arguments, f"effect {action}"),
            key_lifetime_ms=round(tool.key_lifetime * 1000),
            once_per=once_per,
            keep_ms=0 if once_per == JOB else round(tool.keep * 1000),
            model=effect.model,
            objection=effect.objection,
        )

    async def answer(self, claim: Claim, tool: Tool) -> Reply:
        """The ledger's answer to a claim.

        Raises:
            LeaseLost: the run is over.
        """
        started = time.monotonic()
        with child(f"claim {tool.name}", {names.TOOL: tool.name}):
            reply = await self._ask(claim)
            metrics.CLAIM_SECONDS.observe(time.monotonic() - started, exemplar())
            note(names.ANSWER, reply.kind)
        return reply

    async def _ask(self, claim: Claim) -> Reply:
        """Repeat the claim until it is answered; if the run ends before, take it back."""
        answer = self._replies.expect(claim.claim_id)
        copies, withdrawn = 0, False

        def copy() -> Claim:
            nonlocal copies
            copies += 1
            return claim

        def valid_until() -> float:
            # Once the claim is withdrawn, it must not be sent again.
            return NEVER if withdrawn else self._session.held.valid_until

        try:
            reply = await ask(self._session, self._replies, claim.claim_id, copy, valid_until)
        except (asyncio.CancelledError, LeaseLost):
            withdrawn = True
            if copies:
                self.withdraw(claim, None if answer.cancelled() else answer.result())
            raise
        if reply.kind in _OVER or (reply.kind in _NO_FOR_NOW and copies > 1):
            self.withdraw(claim, None)  # another copy may be granted, too
        return reply

    def withdraw(self, claim: Claim, reply: Reply | None) -> None:
        """Report that the effect was not begun, so that nothing was done.

        The outcome stays unknown if an earlier run may have made the call. Without a reply this
        worker cannot tell. It assumes so for a tool that honours keys, because the ledger grants
        an effect of unknown outcome again only for such a tool.
        """
        if reply is not None and reply.kind != "granted":
            return
        repeat = reply.repeat if reply else claim.key_lifetime_ms > 0
        status: OutcomeStatus = effect_states.UNKNOWN if repeat else effect_states.FAILED
        self._session.post(outcome_of(claim, status, error="the run ended before it began"))


def outcome_of(
    claim: Claim,
    status: OutcomeStatus,
    *,
    result: str | None = None,
    error: str | None = None,
    blames_tool: bool = False,
) -> Outcome:
    """How the call of a claimed effect ended."""
    called = claim.claim_id, claim.run_id, claim.action
    return Outcome(*called, status, result, error, claim.once_per, blames_tool)
