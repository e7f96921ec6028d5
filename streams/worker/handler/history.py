"""What one run has called, compared with the results that its job has.

A call (a step or a wait) is identified by its branch, its name, and its ordinal or key. Its number
is given when the handler makes the call, not when it awaits it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any

from streams.errors import HistoryDiverged
from streams.redaction.redaction import Redaction
from streams.serde.records import StepResult
from streams.serde.step_ids import branch_of, mark_id, passed_id, seen_id
from streams.worker.handler.branches import current_branch
from streams.worker.handler.calls import Call, Calls, check_label
from streams.worker.handler.redacted import check_names
from streams.worker.handler.values import from_json

__all__ = ["MARK", "Call", "History"]

MARK = "patch"
"""The kind of what `ctx.patched` leaves."""

_BITS_EACH = 4
"""The failures before a call are a Bloom filter of 256 bits: each sets four. Of 30 failures, one
that is gone is told in 98 of 100 cases. If it is not, a person decides."""

_TURNS = 20
_ROUNDS, _ROUND_SECONDS = 100, 0.05
"""How long other tasks may take to ask for their results: 5 s, before a person is asked."""

_MOST_NAMED, _NAMED_CHARS = 3, 300
"""How many finished calls an error names beside the one that is missed, in how much text."""


class History:
    """The calls of one run, and the results that earlier runs and this one have kept."""

    def __init__(
        self,
        steps: tuple[StepResult, ...],
        code: str | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self.code = code
        self._redaction = redaction
        self._results = {result.id: result for result in steps}
        self._calls = Calls(self._results.__contains__)
        self._unread: dict[str, dict[str, StepResult]] = {}
        self._furthest: dict[str, int] = {}
        self._marks: dict[str, StepResult | None] = {}
        for result in steps:
            branch = branch_of(result.id)
            self._unread.setdefault(branch, {})[result.id] = result
            self._furthest[branch] = max(result.position, self._furthest.get(branch, -1))

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
            PermanentError: the name or the key cannot be kept, or holds a secret.
        """
        check_names(self._redaction, f"the name or key of a {kind}", name, key)
        call = self._calls.call(name, kind, digest, key, was, is_value=is_value)
        self._unread.get(call.branch, {}).pop(call.id, None)
        return call

    def carried_by(self, call: Call, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Note what carries a call out: once it is closed, the call is no longer in flight."""
        self._calls.carried_by(call, coroutine)

    def awaited(self, *values: Call) -> AbstractContextManager[None]:
        """While a task awaits these values, another call of such a name is ambiguous."""
        return self._calls.awaited(*values)

    def branch(self, name: str, line: str) -> AbstractContextManager[None]:
        """Be in a branch of the present one; `line` opens it.

        Raises:
            AmbiguousStep: it is open.
        """
        check_names(self._redaction, "the name of a branch", name)
        return self._calls.branch(name, line)

    def found(self, call: Call) -> StepResult | None:
        """The result that is kept of this call."""
        result = self._results.get(call.id)
        return result if result is not None and result.kind == call.kind else None

    def passed(self, call: Call) -> StepResult | None:
        """How far a wait had got when it was dropped, because another one came first."""
        return self._results.get(passed_id(call.id))

    def seen(self, call: Call) -> StepResult | None:
        """How far the waits of the call's name and digest had got in the job's life before."""
        return self._results.get(seen_id(call.id, call.digest))

    def has(self, id_: str) -> bool:
        """Whether a result is kept under this id."""
        return id_ in self._results

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
        """Remember a result that is durable."""
        self._results[result.id] = result

    def ended(self, call: Call) -> None:
        """Note that a call is no longer in flight; without a kept result it has failed."""
        self._calls.ended(call)
        if call.id not in self._results:
            self.failed(call.id)

    def failed(self, what: str) -> None:
        """Note that a call failed, after which the handler may take another way than before."""
        found = _bits(self._calls.failed)
        for bit in blake2b(what.encode(errors="surrogatepass"), digest_size=_BITS_EACH).digest():
            found |= 1 << bit
        self._calls.failed = found.to_bytes(32, "little")

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
            if self._passed_over(call) is None or not self._calls.has_others(call):
                break
            await asyncio.sleep(_ROUND_SECONDS)
        other = self._passed_over(call)
        if other is not None:
            raise self._diverged(other, call)

    def _diverged(self, recorded: StepResult, asked: Call) -> HistoryDiverged:
        old, new = recorded.id, asked.id
        if recorded.kind != asked.kind:
            old, new = f"{recorded.kind} {old}", f"{asked.kind} {new}"
        return self._told(recorded, old, new, self._behind(recorded, asked))

    def chosen_before(self, recorded: StepResult, asked: Iterable[str]) -> HistoryDiverged:
        """The error of a handler that asks for the first of other waits than it did before."""
        came = from_json(recorded.value)
        return self._told(recorded, f"{recorded.id} {came}", f"{recorded.id} of {', '.join(asked)}")

    def _behind(self, recorded: StepResult, asked: Call) -> str:
        """Tell the other finished calls of the kind: what is asked may be one of them, renamed."""
        unread = self._unread.get(asked.branch, {}).values()
        left = [each for each in unread if each.position >= 0 and each.kind == asked.kind]
        others = [each.id for each in sorted(left, key=_place) if each.id != recorded.id]
        if not others:
            return ""
        named = [id_ for id_ in others[:_MOST_NAMED] if len(id_) <= _NAMED_CHARS // _MOST_NAMED]
        hidden = len(others) - len(named)
        told = [*([", ".join(named)] if named else []), *([f"{hidden} more"] if hidden else [])]
        return f"; finished and not asked for yet: {' and '.join(told)}"

    def _told(self, recorded: StepResult, old: str, new: str, behind: str = "") -> HistoryDiverged:
        versions = ""
        if recorded.code != self.code:
            versions = f"; code {recorded.code or 'unknown'}, now {self.code or 'unknown'}"
        return HistoryDiverged(f"recorded {old}, asked {new}{versions}{behind}", recorded.id)

    def patched(self, name: str) -> bool:
        """See `Context.patched`. A mark takes no place among the calls, so it may go later."""
        check_label(name, "patch")
        check_names(self._redaction, "the name of a patch", name)
        branch = current_branch()
        id_ = mark_id(branch, name)
        if id_ in self._results:
            return True
        if id_ not in self._marks:
            position = self._calls.next_position(branch)
            past = self._furthest.get(branch, -1) >= position
            mark = StepResult(id_, MARK, position, value="true", code=self.code)
            self._marks[id_] = None if past else mark
        return self._marks[id_] is not None

    def new_marks(self) -> list[StepResult]:
        """The marks that must be durable before the next result is, or the next park."""
        made = [mark for mark in self._marks.values() if mark is not None]
        return [mark for mark in made if mark.id not in self._results]

    def _passed_over(self, call: Call) -> StepResult | None:
        """A result of the branch that the handler had to ask for before this call."""
        other_kind = self._results.get(call.id)
        if other_kind is not None:
            return other_kind
        unread = self._unread.get(call.branch, {}).values()
        return min(
            (each for each in unread if _is_evidence(each, call, self._calls.failed)),
            key=_place,
            default=None,
        )


def _place(result: StepResult) -> int:
    return result.position


def _bits(failed: bytes) -> int:
    return int.from_bytes(failed, "little")


def _is_evidence(result: StepResult, call: Call, failed: bytes) -> bool:
    """Whether a handler that makes this call, after these failures, had to ask for the result.

    It takes another way now if it asked for the result after a failure that is none this time.
    """
    before = result.kind != MARK and 0 <= result.position <= call.position
    return before and not _bits(result.failed_before) & ~_bits(failed)
