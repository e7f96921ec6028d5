"""The calls that a handler makes in one run: their numbers, and which of them are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import CORO_CLOSED, getcoroutinestate
from typing import Any
from weakref import WeakSet, ref

from streams.errors import AmbiguousStep, PermanentError
from streams.serde.step_ids import branch_path, step_id
from streams.worker.handler.branches import current_branch, in_branch
from streams.worker.handler.own_frames import calling_line
from streams.worker.handler.values import is_label

_NAME_CHARS = 256
_ID_CHARS = 4_096


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the handler. `position` is its place among the calls of its branch, from 0.

    `failed_before` has the calls of the run that had failed by then, as `History.failed` notes
    them.
    """

    id: str
    kind: str
    name: str
    branch: str
    ordinal: int
    position: int
    digest: bytes
    key: str | None = None
    failed_before: bytes = b""


@dataclass(slots=True)
class _Open:
    """A call that has not ended, the line that made it, and what carries it out."""

    call: Call
    line: str
    task: ref[asyncio.Task[Any]] | None
    coroutine: ref[Coroutine[Any, Any, Any]] | None = None

    @property
    def in_flight(self) -> bool:
        """A coroutine that was closed or forgotten before it began does not end its call."""
        if self.coroutine is None:
            return True
        coroutine = self.coroutine()
        return coroutine is not None and getcoroutinestate(coroutine) != CORO_CLOSED


class Calls:
    """Numbers the calls of one run. `is_kept` tells whether a result is kept under an id."""

    def __init__(self, is_kept: Callable[[str], bool]) -> None:
        self.failed = b""
        self._is_kept = is_kept
        self._ordinals: dict[tuple[str, str], int] = {}
        self._positions: dict[str, int] = {}
        self._open: dict[tuple[str, str, str | None], _Open] = {}
        self._values: dict[str, _Open] = {}
        self._branches: dict[str, str] = {}
        self._callers: dict[str, WeakSet[asyncio.Task[Any]]] = {}

    def next_position(self, branch: str) -> int:
        """The place that the next call in a branch will have."""
        return self._positions.get(branch, 0)

    def call(
        self,
        name: str,
        kind: str,
        digest: bytes,
        key: str | None,
        was: str | None,
        *,
        is_value: bool,
    ) -> Call:
        """See `History.call`."""
        for label in (name, key, was):
            if label is not None:
                check_label(label, kind)
        branch, line = current_branch(), calling_line()
        self._check_alone(branch, name, kind, key, line)
        call = self._numbered(branch, name, kind, digest, key, was)
        made = _Open(call, line, self._caller(branch))
        if is_value:
            self._values[call.id] = made
        else:
            self._open[branch, name, key] = made
        return call

    @contextmanager
    def awaited(self, *values: Call) -> Iterator[None]:
        """See `History.awaited`; the approval of a proposed effect is no call of the handler."""
        own = (each for each in values if each.id in self._values)
        made = {(each.branch, each.name, each.key): self._values[each.id] for each in own}
        new = {place: each for place, each in made.items() if place not in self._open}
        self._open |= new
        try:
            yield
        finally:
            for place in new:
                del self._open[place]

    def carried_by(self, call: Call, coroutine: Coroutine[Any, Any, Any]) -> None:
        """See `History.carried_by`."""
        opened = self._opened(call)
        if opened is not None:
            opened.coroutine = ref(coroutine)

    def ended(self, call: Call) -> None:
        """Note that a call is no longer in flight."""
        if self._opened(call) is not None:
            del self._open[call.branch, call.name, call.key]

    def has_others(self, call: Call) -> bool:
        """Whether another task that makes calls in the call's branch is alive."""
        opened = self._opened(call)
        own = opened.task() if opened is not None and opened.task is not None else None
        mine = (own, asyncio.current_task())
        callers = self._callers.get(call.branch, ())
        return any(task not in mine and not task.done() for task in callers)

    @contextmanager
    def branch(self, name: str, line: str) -> Iterator[None]:
        """Be in a branch of the present one; `line` opens it."""
        check_label(name, "branch")
        path = branch_path(current_branch(), name)
        other = self._branches.get(path)
        if other is not None:
            raise AmbiguousStep(
                f"branch {name!r} is open twice at once, at {other} and at {line}: "
                "give each its own name"
            )
        self._branches[path] = line
        try:
            with in_branch(path):
                yield
        finally:
            del self._branches[path]

    def _check_alone(self, branch: str, name: str, kind: str, key: str | None, line: str) -> None:
        other = self._open.get((branch, name, key))
        if other is None or not other.in_flight:
            return
        means = "" if kind == "first" else "another key=, or " if key is not None else "key=, or "
        raise AmbiguousStep(
            f"{other.call.kind} {name!r} is in flight twice at once, asked at {other.line} and at "
            f"{line}: tell them apart by {means}`async with ctx.branch(...)`"
        )

    def _numbered(
        self, branch: str, name: str, kind: str, digest: bytes, key: str | None, was: str | None
    ) -> Call:
        ordinal = self._next(branch, name) if key is None else 1
        id_ = step_id(branch, name, ordinal, key)
        if was is not None:
            old = step_id(branch, was, self._next(branch, was) if key is None else 1, key)
            id_ = old if self._is_kept(old) and not self._is_kept(id_) else id_
        if len(id_) > _ID_CHARS:
            raise PermanentError(
                f"{kind} {name!r} has an id of {len(id_):,} characters in its branches: "
                f"{_ID_CHARS:,} are the most, use shorter names"
            )
        position = self._positions.get(branch, 0)
        self._positions[branch] = position + 1
        return Call(id_, kind, name, branch, ordinal, position, digest, key, self.failed)

    def _next(self, branch: str, name: str) -> int:
        ordinal = self._ordinals.get((branch, name), 0) + 1
        self._ordinals[branch, name] = ordinal
        return ordinal

    def _caller(self, branch: str) -> ref[asyncio.Task[Any]] | None:
        with suppress(RuntimeError):  # in a thread
            task = asyncio.current_task()
            if task is not None:
                self._callers.setdefault(branch, WeakSet()).add(task)
                return ref(task)
        return None

    def _opened(self, call: Call) -> _Open | None:
        opened = self._open.get((call.branch, call.name, call.key))
        return opened if opened is not None and opened.call is call else None


def check_label(label: object, kind: str) -> None:
    """Check the name or key of a call.

    Raises:
        PermanentError: it cannot be kept.
    """
    if not is_label(label, _NAME_CHARS):
        raise PermanentError(f"{kind} {label!r}: use a string of 1 to {_NAME_CHARS} characters")
