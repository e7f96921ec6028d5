"""The calls of one run that are numbered, and the results that this job has of them.

A call (a step, a wait, a mark) is identified by its branch, its name, and its ordinal or key. Its
number is given when the handler makes the call, not when it awaits it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import CORO_CLOSED, getcoroutinestate
from typing import Any
from weakref import WeakSet, ref

from streams.errors import AmbiguousStep, HistoryDiverged, PermanentError
from streams.serde.records import StepResult
from streams.serde.step_ids import branch_of, branch_path, step_id
from streams.worker.handler.branches import current_branch, in_branch
from streams.worker.handler.own_frames import calling_line
from streams.worker.handler.values import is_label

_NAME_CHARS = 256
_TURNS = 20
_ROUNDS, _ROUND_SECONDS = 100, 0.05
"""How long other tasks may take to ask for their results: 5 s, before a person is asked."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the handler. `position` is its place among the calls of its branch, from 0.

    `failed_before` counts the calls of the run that had failed by then. `previous` is the id of the
    last call of the same name in the branch.
    """

    id: str
    kind: str
    name: str
    branch: str
    ordinal: int
    position: int
    digest: bytes
    key: str | None = None
    failed_before: int = 0
    previous: str | None = None


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


class History:
    """What one run has called, and what earlier runs and this one have kept."""

    def __init__(self, steps: tuple[StepResult, ...], code: str | None = None) -> None:
        self.code = code
        self._results = {result.id: result for result in steps}
        self._unread: dict[str, dict[str, StepResult]] = {}
        for result in steps:
            self._unread.setdefault(branch_of(result.id), {})[result.id] = result
        self._ordinals: dict[tuple[str, str], int] = {}
        self._positions: dict[str, int] = {}
        self._last: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[str, str, str | None], _Open] = {}
        self._branches: dict[str, str] = {}
        self._callers: dict[str, WeakSet[asyncio.Task[Any]]] = {}
        self._failed = 0

    def call(
        self,
        name: str,
        *,
        kind: str,
        digest: bytes = b"",
        key: str | None = None,
        was: str | None = None,
        is_value: bool = False,
    ) -> Call:
        """Number a call that the handler makes now, in the present branch. Do not await before it.

        One that `is_value` is in flight only while it is awaited.

        `was` is an earlier name of the call: a result that is kept under it is this call's.

        Raises:
            AmbiguousStep: another call of this name and key is in flight in this branch.
            PermanentError: the name or the key cannot be kept.
        """
        for label in (name, key, was):
            if label is not None:
                _check_label(label, kind)
        branch, line = current_branch(), calling_line()
        if not is_value:
            self._check_alone(branch, name, key, line)
        call = self._numbered(branch, name, kind, digest, key, was)
        caller = self._caller(branch)
        if not is_value:
            self._open[branch, name, key] = _Open(call, line, caller)
        self._unread.get(branch, {}).pop(call.id, None)
        return call

    def carried_by(self, call: Call, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Note what carries a call out: once it is closed, the call is no longer in flight."""
        opened = self._opened(call)
        if opened is not None:
            opened.coroutine = ref(coroutine)

    def found(self, call: Call) -> StepResult | None:
        """The result that is kept of this call."""
        result = self._results.get(call.id)
        return result if result is not None and result.kind == call.kind else None

    def previous(self, call: Call) -> StepResult | None:
        """The result of the last call of the same name in the branch."""
        return None if call.previous is None else self._results.get(call.previous)

    def result(self, call: Call, *, value: str) -> StepResult:
        """The result of a call, to be kept."""
        return StepResult(
            call.id,
            call.kind,
            call.position,
            call.digest,
            value=value,
            code=self.code,
            failed_before=call.failed_before,
        )

    def kept(self, result: StepResult) -> None:
        """Remember a result that is durable, or that the next park or checkpoint makes so."""
        self._results[result.id] = result

    def ended(self, call: Call) -> None:
        """Note that a call is no longer in flight; without a kept result it has failed."""
        if self._opened(call) is not None:
            del self._open[call.branch, call.name, call.key]
        if call.id not in self._results:
            self.failed()

    def failed(self) -> None:
        """Note that something failed after which the handler may take another way than before."""
        self._failed += 1

    async def check(self, call: Call) -> None:
        """Return if a call without a result may begin.

        Other tasks of the branch may be slower than in the run that left the results: they get
        some time to ask for theirs.

        Raises:
            HistoryDiverged: the job has results that the handler, by now, had to ask for.
        """
        for _ in range(_TURNS):
            if self._passed_over(call) is None:
                return
            await asyncio.sleep(0)
        for _ in range(_ROUNDS):
            if self._passed_over(call) is None or not self._others(call):
                break
            await asyncio.sleep(_ROUND_SECONDS)
        other = self._passed_over(call)
        if other is not None:
            raise HistoryDiverged(_told(other, call, self.code), other.id)

    @contextmanager
    def branch(self, name: str, line: str) -> Iterator[None]:
        """Be in a branch of the present one; `line` opens it."""
        _check_label(name, "branch")
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

    def _check_alone(self, branch: str, name: str, key: str | None, line: str) -> None:
        other = self._open.get((branch, name, key))
        if other is None or not other.in_flight:
            return
        means = "another key=" if key is not None else "key="
        raise AmbiguousStep(
            f"{other.call.kind} {name!r} is in flight twice at once, asked at {other.line} and at "
            f"{line}: tell them apart by {means}, or by `async with ctx.branch(...)`"
        )

    def _numbered(
        self, branch: str, name: str, kind: str, digest: bytes, key: str | None, was: str | None
    ) -> Call:
        ordinal = self._next(branch, name) if key is None else 1
        id_ = step_id(branch, name, ordinal, key)
        if was is not None:
            old = step_id(branch, was, self._next(branch, was) if key is None else 1, key)
            id_ = old if old in self._results else id_
        position = self._positions.get(branch, 0)
        self._positions[branch] = position + 1
        previous = self._last.get((branch, name)) if key is None else None
        self._last[branch, name] = id_
        return Call(id_, kind, name, branch, ordinal, position, digest, key, self._failed, previous)

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

    def _passed_over(self, call: Call) -> StepResult | None:
        """A result of the branch that the handler had to ask for before this call."""
        other_kind = self._results.get(call.id)
        if other_kind is not None:
            return other_kind
        unread = self._unread.get(call.branch, {}).values()
        return min(
            (each for each in unread if _is_evidence(each, call)),
            key=lambda each: each.position,
            default=None,
        )

    def _others(self, call: Call) -> bool:
        """Whether another task that makes calls in the branch is alive."""
        opened = self._opened(call)
        own = opened.task() if opened is not None and opened.task is not None else None
        mine = (own, asyncio.current_task())
        callers = self._callers.get(call.branch, ())
        return any(task not in mine and not task.done() for task in callers)


def _check_label(label: object, kind: str) -> None:
    if not is_label(label, _NAME_CHARS):
        raise PermanentError(f"{kind} {label!r}: use a string of 1 to {_NAME_CHARS} characters")


def _is_evidence(result: StepResult, call: Call) -> bool:
    """Whether a handler that makes this call had to ask for the result before.

    It may have taken another way if an earlier call failed then, and not now, or the reverse.
    """
    return 0 <= result.position <= call.position and result.failed_before == call.failed_before


def _told(recorded: StepResult, asked: Call, code: str | None) -> str:
    old, new = recorded.id, asked.id
    if recorded.kind != asked.kind:
        old, new = f"{recorded.kind} {old}", f"{asked.kind} {new}"
    versions = ""
    if recorded.code != code:
        versions = f"; code {recorded.code or 'unknown'}, now {code or 'unknown'}"
    return f"recorded {old}, asked {new}{versions}"
