"""Tracebacks of handlers as their authors read them: their own frames, without the worker's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = Path(__file__).parents[2]
_BETWEEN = (_OURS, Path(asyncio.__file__).parent, Path(concurrent.futures.__file__).parent)
"""Folders of frames that lead from the worker to a handler, or from `ctx` to its functions."""
_APPLICATIONS = (_OURS / "dev" / "sample.py", _OURS / "demo" / "world")
"""Applications that ship with the worker."""


def own_traceback(error: BaseException) -> str:
    """The traceback without the frames of asyncio and of the worker.

    An error that has no other frames keeps them all.
    """
    shown = traceback.TracebackException.from_exception(error)
    _cut(shown, set())
    return "".join(shown.format()).rstrip()


def own_stack(task: asyncio.Task[Any]) -> str:
    """Where a waiting task stands, from the handler to what it awaits; empty if it has ended."""
    frames = list(_awaiting(task.get_coro()))
    summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
    own = [frame for frame in summary if not _is_between(frame)]
    if not own:
        return ""
    return "It stood at (innermost last):\n" + "".join(traceback.format_list(own)).rstrip()


def _cut(shown: traceback.TracebackException, done: set[int]) -> None:
    """Cut an error, those that it came from, and those of its group."""
    if id(shown) in done:
        return
    done.add(id(shown))
    own = [frame for frame in shown.stack if not _is_between(frame)]
    if own:
        shown.stack = traceback.StackSummary.from_list(own)
    inner = getattr(shown, "exceptions", None) or ()
    for other in (shown.__cause__, shown.__context__, *inner):
        if other is not None:
            _cut(other, done)


def _awaiting(awaited: Any) -> Iterator[FrameType]:
    """The frames of a suspended coroutine, and of each that it awaits."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _is_between(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    if any(path.is_relative_to(folder) for folder in _APPLICATIONS):
        return False
    return any(path.is_relative_to(folder) for folder in _BETWEEN)
