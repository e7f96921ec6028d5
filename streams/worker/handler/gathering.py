"""The lists of jobs that a handler asks for, and waits for together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from streams.errors import ChildFailed, PermanentError
from streams.serde.ids import child_job_id
from streams.serde.job_states import SUCCEEDED
from streams.serde.records import AddChildren, ChildSpec, ReadChildren, SealGather, Wait
from streams.serde.step_ids import gathered_id
from streams.worker.handler.children import ChildCall, Children, Whose
from streams.worker.handler.history import Call, History
from streams.worker.handler.outcome import Outcome
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import digest, from_json
from streams.worker.handler.wait_calls import Span, span_ms
from streams.worker.handler.waits import Pending, Waits

OnFailure = Literal["fail", "collect"]

_PAGE_JOBS, _PAGE_BYTES = 200, 256 * 1024
"""A page of a list is complete with the job that reaches one of these."""
_ASKED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many jobs of a gather run at a time, and how many may fail or have to succeed."""

    limit: int
    on_failure: OnFailure
    min_success: int | None
    tolerated: int | None

    def check(self, count: int) -> None:
        """Raise PermanentError unless a gather of so many jobs can be held to the bounds."""
        if self.on_failure not in get_args(OnFailure):
            raise PermanentError(f'gather: on_failure={self.on_failure!r}: use "fail" or "collect"')
        if type(self.limit) is not int or self.limit < 1:
            raise PermanentError(f"gather: limit={self.limit!r}: use 1 or more")
        for name in ("min_success", "tolerated"):
            value = getattr(self, name)
            if value is None:
                continue
            if self.on_failure == "fail":
                raise PermanentError(f'gather: {name} needs on_failure="collect"')
            if type(value) is not int or not 0 <= value <= count:
                raise PermanentError(f"gather: {name}={value!r}: use 0 to {count:,}")

    def tolerates(self, count: int) -> int:
        """How many of so many jobs may end without success."""
        if self.tolerated is not None:
            return self.tolerated
        return 0 if self.on_failure == "fail" else count


class Gathering:
    """The gathers of one run; one has at most `most` jobs."""

    def __init__(
        self, session: RunSession, history: History, waits: Waits, children: Children, most: int
    ) -> None:
        self._session = session
        self._history = history
        self._waits = waits
        self._children = children
        self._most = most

    def gather(
        self, asked: Sequence[ChildCall], key: str, bounds: Bounds, timeout: Span | None
    ) -> Pending:
        """See `Context.gather`."""
        if not isinstance(asked, Iterable):
            raise PermanentError(f"gather: {asked!r} is no list: give a list of ctx.child(...)")
        asked = tuple(asked)
        self._check(asked)
        bounds.check(len(asked))
        evidence = digest({"jobs": [each.evidence for each in asked]}, "gather")
        call = self._history.call("gather", kind="gather", digest=evidence, key=key, is_value=True)
        wait = Wait(
            call.id,
            "gather",
            call.position,
            call.digest,
            call.failed_before,
            timeout_ms=span_ms(timeout, "timeout"),
            count=len(asked),
        )
        before = partial(self._begin, call, asked, bounds)
        given = partial(self._results, call, asked, bounds)
        return self._waits.pending(call, wait, given, before)

    def _check(self, asked: Sequence[ChildCall]) -> None:
        for each in asked:
            if not isinstance(each, ChildCall):
                raise PermanentError(f"gather: {each!r} is no job: make each by ctx.child(...)")
        if len(asked) > self._most:
            raise PermanentError(
                f"gather: {len(asked):,} jobs are more than {self._most:,}: gather them in several "
                "jobs, or raise workflows.most_children in the topology"
            )
        keys = [each.key for each in asked if each.key is not None]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise PermanentError(f"gather: two jobs have the key {twice!r}: give each its own")

    async def _begin(self, call: Call, asked: Sequence[ChildCall], bounds: Bounds) -> None:
        """Seal the list, then send what the dispatcher does not have of it."""
        tolerated, needed = bounds.tolerates(len(asked)), bounds.min_success or 0
        numbers = len(asked), bounds.limit, tolerated, needed
        reply = await self._children.ask(
            lambda whose: SealGather(*whose, call.id, call.digest, *numbers)
        )
        first = from_json(reply.result)["listed"]
        for page in _pages(self._specs(call, asked, first)):
            run_id = self._session.lease.run_id
            await self._session.say(AddChildren(run_id, call.id, first, page))
            first += len(page)

    def _specs(self, call: Call, asked: Sequence[ChildCall], first: int) -> Iterator[ChildSpec]:
        trace = self._session.traceparent
        for place, each in enumerate(asked[first:], first):
            yield each.spec(gathered_id(call.id, place, each.key), trace)

    async def _results(
        self, call: Call, asked: Sequence[ChildCall], bounds: Bounds, _: Any
    ) -> list[Any]:
        lease = self._session.lease
        names = (gathered_id(call.id, place, each.key) for place, each in enumerate(asked))
        job_ids = [child_job_id(lease.tenant_id, lease.scope, name) for name in names]
        found: list[Outcome] = []
        while len(found) < len(job_ids):
            some = tuple(job_ids[len(found) :][:_ASKED_AT_ONCE])
            reply = await self._children.ask(_reading(some))
            found += [_outcome(told) for told in from_json(reply.result)]
        if bounds.on_failure == "collect":
            return found
        return [_result(each, its) for each, its in zip(found, asked, strict=True)]


def _reading(job_ids: tuple[str, ...]) -> Callable[[Whose], ReadChildren]:
    return lambda whose: ReadChildren(*whose, job_ids)


def _outcome(told: Sequence[Any]) -> Outcome:
    status, result, error, job_id = told
    done = status == SUCCEEDED
    return Outcome(status, from_json(result) if done else None, None if done else error, job_id)


def _result(outcome: Outcome, asked: ChildCall) -> Any:
    """The result of a job that succeeded, as all did; else its record is gone."""
    if outcome.status != SUCCEEDED:
        raise ChildFailed(outcome.job_id, asked.type, outcome.error or outcome.status)
    return outcome.result


def _pages(specs: Iterator[ChildSpec]) -> Iterator[tuple[ChildSpec, ...]]:
    page: list[ChildSpec] = []
    size = 0
    for spec in specs:
        page.append(spec)
        size += len(spec.input.encode()) + len(spec.call.encode())
        if len(page) >= _PAGE_JOBS or size >= _PAGE_BYTES:
            yield tuple(page)
            page, size = [], 0
    if page:
        yield tuple(page)
