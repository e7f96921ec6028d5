"""What a handler asks people to approve, made of the arguments of its calls.

Prompt and arguments are sealed by the owner of the job before they are sent with the command; the
digest of the arguments is not.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, get_args

from streams.errors import ApprovalRejected, PermanentError
from streams.serde.ids import approval_id
from streams.serde.link.places import ApprovalPlace, written
from streams.serde.records import (
    ApprovalEffect,
    Approvers,
    AskApproval,
    OnTimeout,
    PolicyObjection,
    Sealed,
    Wait,
)
from streams.serde.step_ids import proposal_id
from streams.worker.handler.decision import Decision, Proposed
from streams.worker.handler.history import Call, History
from streams.worker.handler.redacted import check_arguments
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import digest, from_json, is_label, json_of, to_json
from streams.worker.handler.waits import Pending, Waits
from streams.worker.job_types import TOOL_NAME

MOST_EFFECTS = 50
"""How many effects one approval may have."""
MOST_VOTES = 20
_KEY_CHARS = 512


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of an approval: the people who may decide, how many of them, and how long."""

    timeout_ms: int | None = None
    on_timeout: OnTimeout = "reject"
    approvers: Approvers = "any"
    quorum: int = 1

    def check(self) -> None:
        """Raise PermanentError unless the terms can be met."""
        for name, known in (("on_timeout", OnTimeout), ("approvers", Approvers)):
            if getattr(self, name) not in get_args(known):
                told = " or ".join(map(repr, get_args(known)))
                raise PermanentError(f"approval: {name}={getattr(self, name)!r}: use {told}")
        if type(self.quorum) is not int or not 1 <= self.quorum <= MOST_VOTES:
            raise PermanentError(f"approval: quorum={self.quorum!r}: use 1 to {MOST_VOTES}")


class Approvals:
    """The approvals that one run asks for."""

    def __init__(self, session: RunSession, history: History, waits: Waits) -> None:
        self._session = session
        self._history = history
        self._waits = waits
        self._asked: dict[str, tuple[str, Pending]] = {}  # by action, with the approval's key

    def asked(
        self, key: str, prompt: str, effects: Sequence[Mapping[str, Any]], terms: Terms
    ) -> Pending:
        """See `Context.approval`."""
        terms.check()
        if not is_label(key, _KEY_CHARS):
            raise PermanentError(f"approval: key={key!r}: use a string of 1 to 512 characters")
        if not isinstance(prompt, str):
            raise PermanentError(f"approval {key}: the prompt is no string")
        found = [_effect(each) for each in effects]
        if len(found) > MOST_EFFECTS or len({each.action for each, _ in found}) < len(found):
            raise PermanentError(
                f"approval {key}: name each effect once, and {MOST_EFFECTS} at most"
            )
        for effect, arguments in found:
            check_arguments(self._session.redaction, arguments, f"effect {effect.action}")
        evidence = _evidence(prompt, found)
        call = self._history.call(
            "approval", kind="approval", digest=evidence, key=key, is_value=True
        )
        pending = self._pending(call, key, prompt, found, terms, _decision)
        self._asked |= {effect.action: (key, pending) for effect, _ in found}
        return pending

    async def known(
        self, tool: str, key: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """The arguments with which people approved a proposed effect; None if it was not proposed.

        Raises:
            ApprovalRejected: they rejected it, or nobody approved it in time.
            PermanentError: it was proposed with other arguments, or the handler
                asked for it and has no decision yet.
        """
        self._check_decided(f"{tool}/{key}")
        if not self._history.has(proposal_id(f"{tool}/{key}")):
            return None
        decision = await self._proposed(tool, key, arguments)
        if not decision.approved:
            by = "in time" if decision.by is None else f"by {decision.by}: {decision.note}"
            raise ApprovalRejected(f"effect {tool}/{key} was not approved {by}")
        return arguments if decision.edit is None else decision.edit

    def _check_decided(self, action: str) -> None:
        """Refuse an effect whose approval was made in this run and never awaited.

        The ledger knows of an approval only once its handler waits for it.
        """
        key, pending = self._asked.get(action, ("", None))
        if pending is not None and self._waits.left(pending) is None:
            raise PermanentError(
                f"effect {action} does not begin: approval {key!r} has no decision: await it "
                "before the effect"
            )

    async def propose(self, tool: str, key: str, found: Proposed) -> NoReturn:
        """Ask people to approve an effect; the run parks until they have decided.

        Raises:
            PermanentError: they approved it before, and it may not begin all the same.
        """
        await self._proposed(tool, key, found.arguments, found.objection)
        raise PermanentError(f"effect {tool}/{key} does not begin: {found.why}")

    def _proposed(
        self,
        tool: str,
        key: str,
        arguments: Mapping[str, Any],
        objection: PolicyObjection | None = None,
    ) -> Pending:
        """The approval of an effect that its handler just asks for.

        It gives the decision, with the whole arguments as the edit. It is no call of the handler,
        so it has no place among them.
        """
        action = f"{tool}/{key}"
        effect = {"tool": tool, "key": key, "arguments": dict(arguments)}
        found, evidence = [_effect(effect)], _evidence("", [_effect(effect)])
        id_ = proposal_id(action)
        call = Call(id_, "approval", "effect", "", 1, -1, evidence, action)
        return self._pending(call, action, "", found, Terms(), _decision_in_full, objection)

    def _pending(
        self,
        call: Call,
        key: str,
        prompt: str,
        effects: Sequence[tuple[ApprovalEffect, Any]],
        terms: Terms,
        given: Callable[[Mapping[str, Any], Any], Decision],
        objection: PolicyObjection | None = None,
    ) -> Pending:
        lease = self._session.lease
        id_ = approval_id(lease.tenant_id, lease.scope, key)
        wait = Wait(
            call.id,
            "approval",
            call.position,
            call.digest,
            call.failed_before,
            approval_id=id_,
            timeout_ms=terms.timeout_ms,
        )
        prompt = self._session.redaction.text(prompt)
        value = {"prompt": prompt, "arguments": [arguments for _, arguments in effects]}
        # Their digest is known: what is sealed must not follow later changes of the handler.
        value = from_json(to_json(value, f"approval {key}"))
        ask = partial(self._say, key, call.digest, value, effects, terms, objection)
        return self._waits.pending(call, wait, partial(self._given, key, given), ask)

    async def _say(
        self,
        key: str,
        evidence: bytes,
        value: Any,
        effects: Sequence[tuple[ApprovalEffect, Any]],
        terms: Terms,
        objection: PolicyObjection | None,
    ) -> None:
        place = written(ApprovalPlace(key))
        asked = AskApproval(
            self._session.lease.run_id,
            key,
            evidence,
            await self._session.requests.seal(place, json_of(value, "approval").decode()),
            tuple(effect for effect, _ in effects),
            terms.approvers,
            terms.quorum,
            terms.on_timeout,
            terms.timeout_ms,
            objection,
        )
        await self._session.say(asked)

    async def _given(
        self, key: str, given: Callable[[Mapping[str, Any], Any], Decision], value: Any
    ) -> Decision:
        sealed, edit, place = value["edit"], None, written(ApprovalPlace(key))
        if sealed is not None:
            kept = Sealed(sealed["key_id"], base64.b64decode(sealed["data"]))
            edit = from_json(await self._session.requests.open(place, kept))
        return given(value, edit)


def _decision(value: Mapping[str, Any], edit: Any) -> Decision:
    given = None if edit is None else edit["edit"]
    return Decision(value["approved"], value["by"], value["note"], given)


def _decision_in_full(value: Mapping[str, Any], edit: Any) -> Decision:
    given = None if edit is None else edit["arguments"][0]
    return Decision(value["approved"], value["by"], value["note"], given)


def _effect(asked: Mapping[str, Any]) -> tuple[ApprovalEffect, Any]:
    """An effect that is asked for, and its arguments; errors must not show what will be sealed."""
    if not isinstance(asked, Mapping) or set(asked) != {"tool", "key", "arguments"}:
        raise PermanentError("approval: an effect is malformed: give tool, key and arguments alone")
    tool, key, arguments = asked["tool"], asked["key"], asked["arguments"]
    if not isinstance(tool, str) or not TOOL_NAME.fullmatch(tool) or not is_label(key, _KEY_CHARS):
        raise PermanentError("approval: an effect has no tool or key of the form of ctx.effect's")
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        raise PermanentError(f"approval: effect {tool}/{key}: give its arguments by their names")
    named = dict(arguments)
    return ApprovalEffect(tool, key, digest(named, f"effect {tool}/{key}")), named


def _evidence(prompt: str, effects: Sequence[tuple[ApprovalEffect, Any]]) -> bytes:
    """The digest of what an approval is about: of its effects or, without any, of its prompt."""
    what = [[effect.tool, effect.key, effect.digest.hex()] for effect, _ in effects]
    return digest({"kind": "approval", "about": what or prompt}, "approval")
