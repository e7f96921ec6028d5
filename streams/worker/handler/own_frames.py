"""Tracebacks of handlers as their authors read them: without frames of the worker and libraries."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

ELSEWHERE = "traceback_elsewhere"
"""The attribute of an error that holds its traceback in another process."""

_OURS = Path(__file__).parents[2]
_BETWEEN = (
    _OURS,
    Path(asyncio.__file__).parent,
    Path(concurrent.futures.__file__).parent,
    Path(contextlib.__file__),
)
"""Where frames lie that lead from the worker to a handler, or from `ctx` to its functions."""
_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
_INSTALLED = {"site-packages", "dist-packages"}
_APPLICATIONS = (_OURS / "dev" / "sample.py", _OURS / "demo" / "world")
"""Applications that ship with the worker."""


def own_traceback(error: BaseException) -> str:
    """The traceback without the frames of the worker, asyncio and other libraries.

    An error without other frames keeps its innermost one. If no error of the chain has others, the
    application itself is installed among the libraries: then those frames stay. It is empty if all
    frames are the worker's, which then raised the error by itself. An error that came from another
    process brings the text of its traceback along. It raises nothing: a run ends with it.
    """
    if (elsewhere := getattr(error, ELSEWHERE, None)) is not None:
        return str(elsewhere)
    try:
        return _shown(traceback.TracebackException.from_exception(error))
    except Exception as odd:  # as of a SyntaxError with places that are no numbers
        return f"(its traceback cannot be shown: {type(odd).__name__})"


def _shown(shown: traceback.TracebackException) -> str:
    chain = _chain(shown)
    frames = [frame for each in chain for frame in each.stack]
    if frames and all(map(_is_between, frames)):
        return ""
    authored = any(map(is_own, frames))
    for each in chain:
        outside = [frame for frame in each.stack if not _is_between(frame)]
        own = [frame for frame in outside if is_own(frame)] if authored else outside
        if own or outside:
            each.stack = traceback.StackSummary.from_list(own or outside[-1:])
    return "".join(shown.format()).rstrip()


def own_stack(task: asyncio.Task[Any]) -> str:
    """Where a waiting task stands, from the handler to what it awaits; empty if it has ended."""
    frames = list(_awaiting(task.get_coro()))
    summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
    outside = [frame for frame in summary if not _is_between(frame)]
    own = list(filter(is_own, outside)) or outside
    if not own:
        return ""
    return "It stood at (innermost last):\n" + "".join(traceback.format_list(own)).rstrip()


def _chain(shown: traceback.TracebackException) -> list[traceback.TracebackException]:
    """An error, those that it came from, and those of its group, each once.

    They may be a thousand, as where a function calls itself to try again: this calls itself not.
    """
    found: dict[int, traceback.TracebackException] = {}
    waiting = [shown]
    while waiting:
        each = waiting.pop()
        if id(each) in found:
            continue
        found[id(each)] = each
        context = None if each.__suppress_context__ else each.__context__
        others = (each.__cause__, context, *(getattr(each, "exceptions", None) or ()))
        waiting += [other for other in others if other is not None]
    return list(found.values())


def _awaiting(awaited: Any) -> Iterator[FrameType]:
    """The frames of a suspended coroutine, and of each that it awaits."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def calling_line() -> str:
    """`file:line` of the innermost frame of the application, which now calls a method of `ctx`."""
    frame: FrameType | None = sys._getframe(1)
    outside = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_own_file(file):
            return f"{file}:{frame.f_lineno}"
        if not outside and not _is_between_file(file):
            outside = f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return outside or "an unknown line"


def is_own(frame: traceback.FrameSummary) -> bool:
    """Whether a frame is of the application, as far as its place tells."""
    return _is_own_file(frame.filename)


def _is_between(frame: traceback.FrameSummary) -> bool:
    return _is_between_file(frame.filename)


@lru_cache(maxsize=1024)
def _is_own_file(name: str) -> bool:
    path = Path(name)
    library = path.is_relative_to(_STANDARD_LIBRARY) or not _INSTALLED.isdisjoint(path.parts)
    made = name.startswith("<")  # as `<string>`, by a dataclass, or `<frozen runpy>`
    return not (library or made or _is_between_file(name))


@lru_cache(maxsize=1024)
def _is_between_file(name: str) -> bool:
    path = Path(name)
    if any(path.is_relative_to(folder) for folder in _APPLICATIONS):
        return False
    return any(path.is_relative_to(folder) for folder in _BETWEEN)
