"""`ctx.effect`: claims an effect, calls the tool, records the outcome, always in this order."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from streams.errors import LeaseLost, PermanentError, PolicyDenied
from streams.serde import effect_states, run_ends
from streams.serde.effect_scopes import JOB
from streams.serde.effect_states import OutcomeStatus
from streams.serde.ids import new_id
from streams.serde.records import Claim, Outcome, Reply
from streams.serde.step_ids import step_id
from streams.tracing import conventions as names
from streams.tracing.spans import CLIENT, child, note
from streams.worker import metrics
from streams.worker.handler.branches import current_branch, inside
from streams.worker.handler.call_check import check_call
from streams.worker.handler.claiming import Claimant, Claims, outcome_of
from streams.worker.handler.decision import NeedsApproval, Proposed
from streams.worker.handler.invoke import call
from streams.worker.handler.proof_not_done import not_done
from streams.worker.handler.redacted import check_arguments, check_names, clean_json
from streams.worker.handler.room import asks_again, check_model, stopped
from streams.worker.handler.run_result import RunResult, RunStopped, describe
from streams.worker.handler.run_session import RunSession, in_call
from streams.worker.handler.values import from_json, is_label, to_json
from streams.worker.job_types import TOOL_NAME, Tool
from streams.worker.link.replies import Replies
from streams.worker.middleware.contract import EffectCall
from streams.worker.tool_call import tool_call

if TYPE_CHECKING:
    from streams.worker.middleware.chain import Chain

_KEY_CHARS = 512


class Effects:
    """The effects of one run."""

    def __init__(
        self, session: RunSession, replies: Replies, claimant: Claimant, chain: Chain
    ) -> None:
        self._session = session
        self._chain = chain
        self._claims = Claims(session, replies, claimant)
        self._claimant = claimant
        self._once_per: dict[str, str] = {}

    async def run(
        self,
        tool: str,
        function: Callable[..., Any],
        key: str,
        arguments: Mapping[str, Any],
        once_per: str = JOB,
        model: str | None = None,
    ) -> Any:
        """See `Context.effect`; `Proposed` if people have to approve it."""
        redaction = self._session.redaction
        check_names(redaction, "an effect's tool or key", tool, key, model)
        action = self._action(tool, key)
        check_arguments(redaction, arguments, f"effect {action}")
        self._check_once_per(action, once_per)
        check_model(model, f"effect {action}")
        with child(f"effect {tool}", {names.TOOL: tool}):
            takes_trace = check_call(function, arguments, f"effect {action}")
            lease = self._session.lease
            # Policies are asked about what is called, not what the handler makes of it meanwhile.
            effect = EffectCall(lease, tool, key, _copied(arguments), once_per, model)
            begin = partial(self._begin, effect, function, takes_trace)
            try:
                return await self._chain.effect(effect, begin)
            except NeedsApproval as error:
                return error.proposed

    async def _begin(
        self, effect: EffectCall, function: Callable[..., Any], takes_trace: bool
    ) -> Any:
        """Claim the effect, and call its function if that is granted."""
        declared = self._claimant.tools.get(effect.tool, Tool(effect.tool))
        claim = self._claims.make(declared, effect)
        claim, reply = await self._answered(claim, declared)
        if reply.kind == "granted":
            made = partial(function, **effect.arguments)
            with self._session.calling():
                return await self._perform(claim, reply, declared, made, takes_trace)
        metrics.EFFECTS.labels(reply.kind).inc()
        note(names.OUTCOME, reply.kind)
        if reply.kind == "done":
            return from_json(reply.result)
        if reply.kind == "approval":
            raise NeedsApproval(Proposed(reply.message, effect.arguments, effect.objection))
        if reply.kind == "busy":
            await self._session.calls_ended()
        raise self._turned_down(reply, claim)

    async def _answered(self, claim: Claim, tool: Tool) -> tuple[Claim, Reply]:
        """The claim that the ledger answers in the end, and its answer."""
        reply = await self._claims.answer(claim, tool)
        while reply.kind == "full" and await asks_again(self._session):
            # With an id of its own, because answers to copies of the former claim may still come.
            claim = replace(claim, claim_id=new_id("clm"))
            reply = await self._claims.answer(claim, tool)
        return claim, reply

    def _check_once_per(self, action: str, once_per: str) -> None:
        if not isinstance(once_per, str) or not TOOL_NAME.fullmatch(once_per):
            raise PermanentError(
                f"effect {action}: once_per={once_per!r}: give 'job', 'tenant', or a name of "
                "letters, digits, '_.:-'"
            )
        if once_per != JOB and in_call():
            raise PermanentError(
                f"effect {action}: once_per={once_per!r} may have to wait for another job, and no "
                "effect waits inside another: ask for it in the handler itself"
            )
        before = self._once_per.setdefault(action, once_per)
        if before != once_per:
            raise PermanentError(
                f"effect {action} was asked for with once_per={before!r} in this run: keep "
                "that, or give another call another key"
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
            self._claims.withdraw(claim, reply)
            raise
        handled = sys.exception()
        try:
            with child(f"call {tool.name}", {names.TOOL: tool.name}, CLIENT):
                trace = {"traceparent": self._session.traceparent} if takes_trace else {}
                made = partial(function, idempotency_key=reply.idempotency_key, **trace)
                branch = step_id(current_branch(), claim.action)
                self._session.live.begin(branch)
                with inside(branch), tool_call(reply.idempotency_key):
                    result = await call(made, partial(self._came_late, claim))
        except BaseException as error:
            # The error is about this call only: an earlier call of unknown outcome stays unknown.
            settled = not_done(error, tool.nothing_done, handled) and not reply.repeat
            status: OutcomeStatus = effect_states.FAILED if settled else effect_states.UNKNOWN
            blames_tool = self._blames_tool(error)
            told = outcome_of(claim, status, error=self._described(error), blames_tool=blames_tool)
            await self._record(told)
            raise
        return await self._done(claim, result)

    def _described(self, error: BaseException) -> str:
        return describe(error, self._session.redaction.text)

    def _blames_tool(self, error: BaseException) -> bool:
        """Whether a call failed by its tool: that did not answer in time, or not as it should.

        A permanent error is an answer to this call, and says nothing about others.
        """
        if isinstance(error, CancelledError):
            verdict = self._session.verdict
            return verdict is not None and verdict.status == run_ends.RETRY  # its time was up
        return isinstance(error, Exception) and not isinstance(error, PermanentError | LeaseLost)

    async def _done(self, claim: Claim, result: Any) -> Any:
        try:
            what = f"the result of effect {claim.action}"
            text = clean_json(to_json(result, what), self._session.redaction, what)
        except PermanentError:
            # The effect did happen: record that. The error tells the author about the result.
            await self._record(outcome_of(claim, effect_states.DONE))
            raise
        await self._record(outcome_of(claim, effect_states.DONE, result=text))
        return from_json(text)

    def _came_late(self, claim: Claim, result: Any) -> None:
        """Report what a call in a thread returned after the run was stopped: it did happen."""
        try:
            text = to_json(result, claim.action)
        except PermanentError:
            text = None
        metrics.EFFECTS.labels(effect_states.DONE).inc()
        self._session.post(outcome_of(claim, effect_states.DONE, result=text))

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
            case "full":
                tool = action.partition("/")[0]
                return stopped(self._session, tool, claim.model, reply.message)
            case "denied" | "refused":
                kind = PolicyDenied if reply.kind == "denied" else PermanentError
                return kind(reply.message)
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


def _copied(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments of their own; what cannot be copied is no JSON, and is refused with the claim."""
    try:
        return deepcopy(arguments)
    except Exception:
        return arguments
