"""What a worker and the process of a handler say to each other, each pickled.

The worker sends a `Task`. Then the child speaks: `Asked` for a call of the context, which the
worker answers with `Returned` or `Raised`, or its end, one of these two. Where a call has a
function of the child's, the worker first sends `Perform` with its arguments, and the child answers
that, too.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from streams import errors
from streams.errors import PermanentError, RetryAfter, TransientError
from streams.worker.blocking import context
from streams.worker.blocking.context import View
from streams.worker.handler.own_frames import ELSEWHERE, own_traceback
from streams.worker.handler.proof_not_done import THROUGH_CONTEXT

MOST_BYTES = 256 * 1024 * 1024
"""The most that a process says at once: the worker has it in its own memory."""
_MOST_CHARS = 400_000
"""More of an error's texts than the worker searches for secrets."""


@dataclass(frozen=True, slots=True)
class Task:
    """Run the function of a module on an input, with so many bytes of address space at most."""

    module: str
    function: str
    view: View
    most_bytes: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of the context, by name; `has_function` if it calls a function of the child's."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    has_function: bool


@dataclass(frozen=True, slots=True)
class Perform:
    """Call the function of the call that is under way."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Returned:
    value: Any


class CannotBePickled:
    """Stands for a value that cannot be sent, and is refused as no JSON where that is asked for."""


class TooLargeToSend(CannotBePickled):
    """The same, for a value of more than `MOST_BYTES`."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An error, as far as it crosses to another process: its type's name, and its text.

    `through_context` says that a call of the context raised it or let it pass.
    """

    kind: str
    message: str
    seconds: float | None
    where: str
    through_context: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        ours = (type(error), RetryAfter, PermanentError, TransientError)
        known = (each for each in ours if isinstance(error, each) and _has_plain(each))
        kind = RetryAfter if isinstance(error, RetryAfter) else next(known, type(error))
        seconds = error.seconds if isinstance(error, RetryAfter) else None
        text, where = _text(error)[:_MOST_CHARS], own_traceback(error)[-_MOST_CHARS:]
        return cls(kind.__name__, text, seconds, where, _is_of_a_call(error))

    @property
    def is_ours(self) -> bool:
        """Whether it is an error of the product, and none that nobody foresaw."""
        return hasattr(errors, self.kind)

    def error(self) -> BaseException:
        """The error again; one that is not the product's as a type of its name."""
        error = self._made()
        setattr(error, ELSEWHERE, self.where)
        setattr(error, THROUGH_CONTEXT, self.through_context)
        return error

    def _made(self) -> BaseException:
        if self.seconds is not None:
            return RetryAfter(self.seconds, self.message)
        known = getattr(errors, self.kind, None)
        if known is not None and _has_plain(known):
            plain: BaseException = known(self.message)
            return plain
        made: BaseException = type(self.kind, (FailedInProcess,), {})(self.message)
        return made


class FailedInProcess(Exception):
    """What a handler raised in a process of its own; it is raised as a subclass of that name."""


def _has_plain(kind: type[BaseException]) -> bool:
    """Whether an error of the product is made of its message alone."""
    plain = kind.__init__ is Exception.__init__
    return plain and issubclass(kind, errors.JobError) and hasattr(errors, kind.__name__)


def _is_of_a_call(error: BaseException) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == context.__name__ for frame in frames)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say what it is)"
