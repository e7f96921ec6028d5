"""How a run ended, as one value; this is the only place that maps errors to it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass

from streams.errors import (
    HistoryDiverged,
    PermanentError,
    RetryAfter,
    TidegateError,
    TransientError,
)
from streams.serde.records import Wait
from streams.serde.run_ends import FAILED, RETRY, REVIEW, RunEnd
from streams.worker.handler.own_frames import own_traceback

_BLAMED = "in middleware "
_WHERE_CHARS = 200
_ERROR_CHARS = 2_000
_TRACEBACK_CHARS = 4_000
_CLEANED_CHARS, _LONGEST_SECRET = 262_144, 65_536
"""So much of an error's text is searched for secrets: the search of a whole body that a handler
puts into its error would hold up all other runs."""

Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended; `lost` is never reported, because another run may have begun.

    `traceback` has the handler's own frames: where it raised, or stood when its time was up.
    `waits` are what the job of a parked run waits for.
    `diverged` is the finished step for which a handler of changed code did not ask.
    """

    status: RunEnd
    result: str | None = None
    error: str | None = None
    retry_after_seconds: float | None = None
    traceback: str | None = None
    waits: tuple[Wait, ...] = ()
    diverged: str | None = None


class RunStopped(BaseException):
    """Unwinds the handler of a run that was stopped; no `except Exception` of a handler keeps it.

    Give the session the run's end first (`RunSession.stop`), because that is what counts.
    """


def raised(error: BaseException, clean: Clean) -> RunResult:
    """The result of a handler that raised; in a group, the most decisive error counts.

    `clean` takes secrets out of texts. It gets them before they are cut, because a part of a secret
    is not found.
    """
    where = _last_of(traceback_of(error, clean))
    if isinstance(error, BaseExceptionGroup):
        error = _decisive(error)
    text = describe(error, clean)
    if isinstance(error, HistoryDiverged):
        return RunResult(REVIEW, error=text, traceback=where, diverged=error.recorded)
    if isinstance(error, PermanentError):
        return RunResult(FAILED, error=text, traceback=where)
    after = error.seconds if isinstance(error, RetryAfter) else None
    return RunResult(RETRY, error=text, retry_after_seconds=after, traceback=where)


def unforeseen(error: BaseException) -> bool:
    """Whether an error, or one of its group, is unforeseen, so that its traceback is logged."""
    ours = (TidegateError, RunStopped, CancelledError)
    return any(not isinstance(leaf, ours) for leaf in _leaves(error))


def timed_out(seconds: float, stack: str = "") -> RunResult:
    """The result of a handler whose time is up; `stack` says where it stood."""
    told = f"TimeoutError: ran past its {seconds:g} s"
    return RunResult(RETRY, error=told, traceback=_last_of(stack))


def describe(error: BaseException, clean: Clean) -> str:
    """`Type: message`, cut to 2,000 characters; a vendor's lone surrogates are escaped.

    An error that a middleware raised ends with the name of that. `clean` is as in `raised`.
    """
    try:
        text = str(error)
    except BaseException:  # a SystemExit, too, is the handler's
        text = "(it cannot say what it is)"
    text, where = _head(f"{type(error).__name__}: {text}", clean), _where(error)
    return _encodable(text[: _ERROR_CHARS - len(where)] + where)


def traceback_of(error: BaseException, clean: Clean) -> str:
    """The handler's own frames without secrets; of a very long traceback the end."""
    text = _encodable(own_traceback(error))
    if len(text) <= _CLEANED_CHARS:
        return clean(text)
    return clean(text[-_CLEANED_CHARS:])[_LONGEST_SECRET:]  # where it is cut, there may be half one


def _head(text: str, clean: Clean) -> str:
    """A text without secrets; of a very long one the beginning."""
    if len(text) <= _CLEANED_CHARS:
        return clean(text)
    return clean(text[:_CLEANED_CHARS])[:-_LONGEST_SECRET] or text.partition(":")[0]


def blame(error: BaseException, middleware: str) -> None:
    """Note in which middleware an error, or a group of them, was raised; the innermost counts."""
    for leaf in _leaves(error):
        if not _where(leaf):
            leaf.add_note(_BLAMED + middleware)


def _where(error: BaseException) -> str:
    notes: object = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        return ""
    found = (note for note in notes if isinstance(note, str) and note.startswith(_BLAMED))
    return next((f" ({note[:_WHERE_CHARS]})" for note in found), "")


def _last_of(traceback: str) -> str | None:
    """The end of a traceback, which has the line that raised; None for none."""
    cut = len(traceback) > _TRACEBACK_CHARS
    kept = f"[...]\n{traceback[-_TRACEBACK_CHARS:]}" if cut else traceback
    return _encodable(kept) or None


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _decisive(group: BaseExceptionGroup[BaseException]) -> BaseException:
    leaves = list(_leaves(group))
    for kind in (HistoryDiverged, PermanentError, RetryAfter, TransientError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(error: BaseException) -> list[BaseException]:
    found, waiting = list[BaseException](), [error]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(reversed(each.exceptions))
        else:
            found.append(each)
    return found
