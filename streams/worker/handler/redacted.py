"""Takes secrets out of the commands of a run: no string of a handler leaves but through here.

Each string of a command is one of four: ours, JSON, text, or a name that the handler chose. A name
cannot be changed, because it tells one step or effect from another. One that holds a secret is
refused. So a string that a new command brings is refused at worst, and never sent unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from streams.errors import PermanentError
from streams.serde.records import Ended, Outcome
from streams.serde.run_ends import BLOCKED, CONTINUED, SUCCEEDED
from streams.worker.handler.values import check_size, to_json

if TYPE_CHECKING:
    from streams.redaction.redaction import Redaction
    from streams.worker.handler.run_result import RunResult

T = TypeVar("T")

_OURS = frozenset(
    {
        "after_event",
        "approval_id",
        "approvers",
        "claim_id",
        "code",
        "decision",
        "diverged",
        "job_id",
        "job_ids",
        "key_id",
        "kind",
        "on_timeout",
        "raises",
        "run_id",
        "since",
        "status",
        "traceparent",
    }
)
"""Fields that Tidegate itself fills."""

_JSON = frozenset({"input", "result", "value"})
_TEXTS = frozenset({"error", "message", "reason", "traceback"})


def redacted(body: T, redaction: Redaction) -> T:
    """A command, or a part of one, as it may be sent.

    Raises:
        PermanentError: a name that the handler chose holds a secret.
    """
    if redaction.is_idle:
        return body
    changes = {}
    for name in (each.name for each in fields(body)):  # type: ignore[arg-type]
        before = getattr(body, name)
        after = before if _was_checked(body, name) else _inside(name, before, redaction)
        if after is not before:
            changes[name] = after
    return replace(body, **changes) if changes else body  # type: ignore[type-var]


def redacted_result(result: RunResult, redaction: Redaction) -> RunResult:
    """How a run ended, as it may be logged and sent."""
    if redaction.is_idle:
        return result
    value = result.result
    if value is not None and result.status in (SUCCEEDED, CONTINUED):
        value = redaction.json(value)
    error = result.error and redaction.text(result.error)
    traceback = result.traceback and redaction.text(result.traceback)
    return replace(result, result=value, error=error, traceback=traceback)


def clean_json(text: str, redaction: Redaction, what: str) -> str:
    """JSON of a handler without secrets.

    Raises:
        PermanentError: the marks in their places make it too large for a record.
    """
    found = redaction.json(text)
    if found is not text:
        check_size(found.encode(), what)
    return found


def check_names(redaction: Redaction | None, what: str, *names: object) -> None:
    """Return if none of these names holds a secret.

    Call it before a span or log line has one, and before its signs are escaped in an id.

    Raises:
        PermanentError: one does; it is not shown.
    """
    if redaction is None or redaction.is_idle:
        return
    if any(isinstance(name, str) and redaction.covers(name) for name in names):
        raise _refused(what)


def check_arguments(redaction: Redaction, arguments: Mapping[str, Any], what: str) -> None:
    """Return if no argument of an effect is a credential.

    Raises:
        PermanentError: one is: it would be another argument once the credential is rotated.
    """
    secrets = redaction.secrets
    for name, value in arguments.items() if secrets.forms else ():
        if secrets.are_in(to_json(value, f"{what}: argument {name!r}")):
            raise PermanentError(
                f"{what}: argument {name!r} holds a credential: let the function take it from "
                "around it, and do not pass it"
            )


def _was_checked(body: object, name: str) -> bool:
    """Whether a field has only names that were checked when the handler asked for the thing.

    These are the effect whose outcome is told, the waits of a run that ends, and the effect that a
    blocked run waits for. To refuse them now would leave people without the outcome.
    """
    if isinstance(body, Outcome):
        return name in ("action", "once_per")
    if isinstance(body, Ended):
        return name in ("given", "waits") or (name == "result" and body.status == BLOCKED)
    return False


def _inside(name: str, value: Any, redaction: Redaction) -> Any:
    if isinstance(value, str):
        return _string(name, value, redaction)
    if isinstance(value, tuple):
        found = tuple(_inside(name, each, redaction) for each in value)
        return value if found == value else found
    return redacted(value, redaction) if is_dataclass(value) else value


def _string(name: str, value: str, redaction: Redaction) -> str:
    if name in _JSON:
        return redaction.json(value)
    if name in _TEXTS:
        return redaction.text(value)
    if name not in _OURS:
        check_names(redaction, name, value)
    return value


def _refused(what: str) -> PermanentError:
    return PermanentError(
        f"{what} holds a secret that redaction takes out of values. A name cannot be changed: use "
        "an id that is none"
    )
