"""`ctx.effect`: claims an effect, calls the tool, records the outcome, always in this order."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streams.errors import LeaseLost, PermanentError
from streams.serde import effect_states, run_ends
from streams.serde.effect_scopes import JOB
from streams.serde.effect_states import OutcomeStatus
from streams.serde.ids import new_id
from streams.serde.records import Claim, Outcome, Reply
from streams.serde.step_ids import step_id
from streams.tracing import conventions as names
from streams.tracing.spans import CLIENT, child, exemplar, note
from streams.worker import metrics
from streams.worker.app import TOOL_NAME, Tool
from streams.worker.handler.asking import RESEND_SECONDS
from streams.worker.handler.branches import current_branch, inside
from streams.worker.handler.call_check import check_call
from streams.worker.handler.decision import Proposed
from streams.worker.handler.invoke import call
from streams.worker.handler.proof_not_done import not_done
from streams.worker.handler.run_result import RunResult, RunStopped, describe
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import digest, from_json, is_label, to_json
from streams.worker.transport.replies import Replies

_KEY_CHARS = 512


@dataclass(frozen=True, slots=True)
class Claimant:
    """The values that all claims of one run share; `tools` has the declared ones by name."""

    worker_id: str
    reply_partition: Callable[[], int]
    tools: Mapping[str, Tool]
    scopes: frozenset[str] | None


class Effects:
    """The effects of one run."""

    def __init__(self, session: RunSession, replies: Replies, claimant: Claimant) -> None:
        self._session = session
        self._replies = replies
        self._claimant = claimant
        self._calls: set[asyncio.Future[None]] = set()
        self._once_per: dict[str, str] = {}

    async def run(
        self,
        tool: str,
        function: Callable[..., Any],
        key: str,
        arguments: Mapping[str, Any],
        once_per: str = JOB,
    ) -> Any:
        """See `Context.effect`; `Proposed` if people have to approve it."""
        action = self._action(tool, key)
        if not isinstance(once_per, str) or not TOOL_NAME.fullmatch(once_per):
            raise PermanentError(
                f"effect {action}: once_per={once_per!r}: give 'job', 'tenant', or a name of "
                "letters, digits, '_.:-'"
            )
        before = self._once_per.setdefault(action, once_per)
        if before != once_per:
            raise PermanentError(
                f"effect {action} was asked for with once_per={before!r} in this run: keep "
                "that, or give another call another key"
            )
        with child(f"effect {tool}", {names.TOOL: tool}):
            takes_trace = check_call(function, arguments, f"effect {action}")
            declared = self._claimant.tools.get(tool, Tool(tool))
            claim = self._claim(declared, action, arguments, once_per)
            reply = await self._answer(claim, declared)
            if reply.kind == "granted":
                made = partial(function, **arguments)
                with self._call():
                    return await self._perform(claim, reply, declared, made, takes_trace)
            metrics.EFFECTS.labels(reply.kind).inc()
            note(names.OUTCOME, reply.kind)
            if reply.kind == "done":
                return from_json(reply.result)
            if reply.kind == "approval":
                return Proposed(reply.message)
            if reply.kind == "busy":
                await self._calls_ended()
            raise self._turned_down(reply, claim)

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Note that a tool is called."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls.add(ended)
        try:
            yield
        finally:
            self._calls.discard(ended)
            ended.set_result(None)

    async def _calls_ended(self) -> None:
        """Wait for the run's own calls: stopping it would leave their outcomes unknown."""
        while self._calls:
            await asyncio.wait(set(self._calls))

    def _claim(self, tool: Tool, action: str, arguments: Mapping[str, Any], once_per: str) -> Claim:
        return Claim(
            worker_id=self._claimant.worker_id,
            reply_partition=self._claimant.reply_partition(),
            claim_id=new_id("clm"),
            run_id=self._session.lease.run_id,
            action=action,
            digest=digest(arguments, f"effect {action}"),
            key_lifetime_ms=round(tool.key_lifetime * 1000),
            once_per=once_per,
            keep_ms=0 if once_per == JOB else round(tool.keep * 1000),
        )

    def _action(self, tool: str, key: str) -> str:
        if not TOOL_NAME.fullmatch(tool):
            raise PermanentError(f"effect: {tool!r} is no tool's name: use letters, digits, '_.:-'")
        scopes = self._claimant.scopes
        if scopes is not None and tool not in scopes:
            type_ = self._session.lease.type
            raise PermanentError(f"job type {type_!r} may not use {tool!r}: add it to its scopes")
        if not is_label(key, _KEY_CHARS):
            raise PermanentError(
                f"effect {tool}: key={key!r} must be a string of 1 to {_KEY_CHARS} characters"
            )
        return f"{tool}/{key}"

    async def _answer(self, claim: Claim, tool: Tool) -> Reply:
        started = time.monotonic()
        with child(f"claim {tool.name}", {names.TOOL: tool.name}):
            reply = await self._ask(claim)
            metrics.CLAIM_SECONDS.observe(time.monotonic() - started, exemplar())
            note(names.ANSWER, reply.kind)
        return reply

    async def _ask(self, claim: Claim) -> Reply:
        """Repeat the claim until it is answered: a reply may be lost with its dispatcher."""
        self._session.check()
        answer = self._replies.expect(claim.claim_id)
        withdrawn, copies = False, 0
        try:
            while True:
                copies += 1
                now = replace(claim, reply_partition=self._claimant.reply_partition())
                # Once the claim is withdrawn, it must not be sent again.
                await self._session.say(
                    now, lambda: -1.0 if withdrawn else self._session.held.valid_until
                )
                if (await asyncio.wait({answer}, timeout=RESEND_SECONDS))[0]:
                    reply = answer.result()
                    if reply.kind == "busy" and copies > 1:
                        # Another copy may be granted later.
                        self._withdraw(claim, None)
                    return reply
                self._session.check()
        except (asyncio.CancelledError, LeaseLost):
            withdrawn = True
            self._withdraw(claim, answer.result() if answer.done() else None)
            raise
        finally:
            self._replies.dismiss(claim.claim_id)

    def _withdraw(self, claim: Claim, reply: Reply | None) -> None:
        """Report that the effect was not begun, so that nothing was done.

        The outcome stays unknown if an earlier run may have made the call. Without a reply this
        worker cannot tell. It assumes so for a tool that honours keys, because the ledger grants
        an effect of unknown outcome again only for such a tool.
        """
        if reply is not None and reply.kind != "granted":
            return
        repeat = reply.repeat if reply else claim.key_lifetime_ms > 0
        status: OutcomeStatus = effect_states.UNKNOWN if repeat else effect_states.FAILED
        self._session.post(_outcome(claim, status, error="the run ended before it began"))

    async def _perform(
        self,
        claim: Claim,
        reply: Reply,
        tool: Tool,
        function: Callable[..., Any],
        takes_trace: bool,
    ) -> Any:
        try:
            self._session.check()
        except LeaseLost:
            self._withdraw(claim, reply)
            raise
        handled = sys.exception()
        try:
            with child(f"call {tool.name}", {names.TOOL: tool.name}, CLIENT):
                trace = {"traceparent": self._session.traceparent} if takes_trace else {}
                made = partial(function, idempotency_key=reply.idempotency_key, **trace)
                with inside(step_id(current_branch(), claim.action)):
                    result = await call(made, partial(self._came_late, claim))
        except BaseException as error:
            # The error is about this call only: an earlier call of unknown outcome stays unknown.
            settled = not_done(error, tool.nothing_done, handled) and not reply.repeat
            status: OutcomeStatus = effect_states.FAILED if settled else effect_states.UNKNOWN
            await self._record(_outcome(claim, status, error=describe(error)))
            raise
        return await self._done(claim, result)

    async def _done(self, claim: Claim, result: Any) -> Any:
        try:
            text = to_json(result, f"the result of effect {claim.action}")
        except PermanentError:
            # The effect did happen: record that. The error tells the author about the result.
            await self._record(_outcome(claim, effect_states.DONE))
            raise
        await self._record(_outcome(claim, effect_states.DONE, result=text))
        return from_json(text)

    def _came_late(self, claim: Claim, result: Any) -> None:
        """Report what a call in a thread returned after the run was stopped: it did happen."""
        try:
            text = to_json(result, claim.action)
        except PermanentError:
            text = None
        metrics.EFFECTS.labels(effect_states.DONE).inc()
        self._session.post(_outcome(claim, effect_states.DONE, result=text))

    async def _record(self, outcome: Outcome) -> None:
        metrics.EFFECTS.labels(outcome.status).inc()
        note(names.OUTCOME, outcome.status)
        await self._session.record(outcome)

    def _turned_down(self, reply: Reply, claim: Claim) -> BaseException:
        action = claim.action
        match reply.kind:
            case "held":
                return PermanentError(
                    f"effect {action} is under way in this job already: "
                    "give each call of a tool its own key"
                )
            case "busy":
                awaited = to_json([claim.once_per, action], "what the run waits for")
                self._session.stop(RunResult(run_ends.BLOCKED, awaited, reply.message))
                return RunStopped(reply.message)
            case "refused":
                return PermanentError(reply.message)
            case "review":
                text = reply.message or f"effect {action} may have happened: a person decides"
                self._session.stop(RunResult(run_ends.REVIEW, error=text))
                return RunStopped(text)
            case "cancel":
                why = reply.message or "cancelled"
                self._session.stop(RunResult(run_ends.CANCELLED, error=why))
            case _:
                self._session.lose(reply.message or f"the ledger refused the claim of {action}")
        return LeaseLost(f"effect {action} is not begun: the run is over")


def _outcome(
    claim: Claim,
    status: OutcomeStatus,
    *,
    result: str | None = None,
    error: str | None = None,
) -> Outcome:
    return Outcome(
        claim.claim_id, claim.run_id, claim.action, status, result, error, claim.once_per
    )
