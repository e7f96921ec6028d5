"""The policies of an application, asked before each effect is claimed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from streams.errors import PermanentError
from streams.serde.records import PolicyObjection
from streams.worker.handler.run_result import blame
from streams.worker.middleware.contract import EffectCall, GoOnWithEffect, Middleware, WorkerParts

_REASON_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Deny:
    """The effect does not begin; the job's error has the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Approve:
    """People have to approve the effect before it begins."""

    reason: str


Answer = Deny | Approve | None
PolicyFunction = Callable[[EffectCall], Answer | Awaitable[Answer]]


class Policy(Middleware):
    """Asks what `@app.policy` declares, in order, up to the first that denies the effect.

    Without a denial, the first that wants an approval counts.
    The objection goes with the claim, and the ledger applies it to an effect that is about to
    begin: one that is done already gives its kept result.
    """

    def __init__(self, worker: WorkerParts) -> None:
        self._policies = tuple(worker.app.policies.items())

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        """Note the objections, and go on."""
        for name, function in self._policies:
            objection = await _asked(name, function, effect)
            if objection is not None:
                effect.objections.append(objection)
                if objection.decision == "deny":
                    break
        return await go_on()


async def _asked(name: str, function: PolicyFunction, effect: EffectCall) -> PolicyObjection | None:
    """What a policy says of an effect. If it fails, the effect does not begin."""
    try:
        answered = function(effect)
        found: object = await answered if inspect.isawaitable(answered) else answered
        if found is None:
            return None
        if isinstance(found, Deny | Approve):
            is_denied = isinstance(found, Deny)
            return PolicyObjection(name, "deny" if is_denied else "approve", _text(found.reason))
        raise PermanentError(f"it returned {found!r}: return None, Deny(reason) or Approve(reason)")
    except Exception as error:
        blame(error, f"Policy: {name}")
        raise


def _text(reason: object) -> str:
    """A reason that can be sent. It is not cut here, because redaction finds only whole secrets."""
    text = str(reason).encode("utf-8", "backslashreplace").decode()
    if len(text) > _REASON_CHARS:
        raise PermanentError(f"its reason has {len(text):,} characters: give {_REASON_CHARS:,}")
    return text
