"""The call of a tool that is under way: `ctx.http` sends its key, and notes what it has sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

_Error = TypeVar("_Error", bound=BaseException)

_SENT, _DISPROVED = "sent_by_then", "is_disproved"
"""Attributes of an error that proves that nothing was done."""


@dataclass(slots=True)
class ToolCall:
    """One call of an effect's function.

    `sent` counts the requests that may have done something, or are about to. Once the call
    `is_over`, its outcome is told, and no request may begin.
    """

    idempotency_key: str
    sent: int = 0
    is_over: bool = False


_PRESENT: ContextVar[ToolCall | None] = ContextVar("tool_call", default=None)


def present_call() -> ToolCall | None:
    """The call in which the present task is; None outside of an effect."""
    return _PRESENT.get()


@contextmanager
def tool_call(idempotency_key: str) -> Iterator[None]:
    """Be in the call of a tool; the tasks that are made in it are in it, too."""
    call = ToolCall(idempotency_key)
    token = _PRESENT.set(call)
    try:
        yield
    except BaseException as error:
        if getattr(error, _SENT, call.sent) != call.sent:
            setattr(error, _DISPROVED, True)
        raise
    finally:
        call.is_over = True
        _PRESENT.reset(token)


def proof(error: _Error) -> _Error:
    """An error that proves that the present call did nothing, as long as that sends no more.

    The function may catch it, make another request, and raise it after all.
    """
    call = _PRESENT.get()
    if call is not None:
        setattr(error, _SENT, call.sent)
    return error


def is_disproved(error: BaseException) -> bool:
    """Whether the call has sent more since the error was its proof."""
    return getattr(error, _DISPROVED, False)
