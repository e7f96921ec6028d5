"""What a test sees: frozen values that it compares with those that it expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.serde.effect_scopes import JOB, effect_scope, full_action
from streams.serde.effect_states import DONE, EffectStatus
from streams.serde.run_ends import AttemptKind


@dataclass(frozen=True)
class Effect:
    """One entry of the ledger; `status` is as in docs/effects.md, `failed` means not done.

    Two effects are equal if tool, key, arguments, status and result are: what differs from run to
    run, and what people wrote, is not compared.
    """

    tool: str
    key: str
    args: Mapping[str, Any] = field(default_factory=dict)
    status: EffectStatus = DONE
    result: Any = None
    error: str | None = field(default=None, compare=False)
    idempotency_key: str = field(default="", compare=False)
    settled_by: str | None = field(default=None, compare=False)
    note: str | None = field(default=None, compare=False)
    once_per: str = field(default=JOB, compare=False)
    job_id: str = field(default="", compare=False)
    """The job that claimed it last; for an effect that counts beyond it, maybe another one."""

    @property
    def action(self) -> str:
        """Tool and key, as the ledger names the effect: `email:send/reply`.

        That of an effect that counts beyond its job begins with its scope: `@tenant/email:send/x`.
        """
        return full_action(effect_scope("", self.once_per), f"{self.tool}/{self.key}")


@dataclass(frozen=True)
class Call:
    """One call of a tool's function, or of its fake, that was made.

    Two calls are equal if tool, key and arguments are.
    """

    tool: str
    key: str
    args: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str = field(default="", compare=False)
    job_id: str = field(default="", compare=False)
    attempt: int = field(default=0, compare=False)
    at: float = field(default=0.0, compare=False)
    """Virtual seconds since the bench began."""


@dataclass(frozen=True)
class FailedRun:
    """A run that did not succeed; attempt 0 is a lease that its worker never confirmed.

    `retry_in` are the seconds until the next attempt, None if none was set. Every wait is spread,
    so it is not compared, and neither is the error.
    """

    attempt: int
    kind: AttemptKind
    error: str | None = field(default=None, compare=False)
    retry_in: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class DeadLetter:
    """Why a job stands in the dead letters; `detail` is not compared."""

    reason: str
    detail: str = field(default="", compare=False)


@dataclass(frozen=True)
class LogLine:
    """A line that a handler wrote to `ctx.log`; its fields are not compared."""

    level: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False)
