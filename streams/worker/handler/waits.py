"""What a handler waits for: values that are awaited, alone or together.

A run parks once all that its tasks await are waits: it ends, its slot is free, and a later run
finds what the waits left. A task that awaits something else meanwhile is cancelled with the run,
and does it again in the later one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from streams import errors
from streams.errors import LeaseLost, PermanentError
from streams.serde.ids import new_id
from streams.serde.records import Listen, StepResult, Wait
from streams.serde.run_ends import PARKED
from streams.serde.step_ids import is_inside
from streams.worker.handler.artifacts import Artifacts
from streams.worker.handler.asking import ask
from streams.worker.handler.branches import current_branch
from streams.worker.handler.divergence import diverge, may_begin
from streams.worker.handler.history import Call, History
from streams.worker.handler.redacted import redacted
from streams.worker.handler.run_result import RunResult, RunStopped
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.steps import Steps
from streams.worker.handler.values import from_json, to_json
from streams.worker.handler.wait_groups import check_number, grouped
from streams.worker.link.replies import Replies

_Name = TypeVar("_Name")

_TURNS = 50
"""How often the event loop goes round before a run parks.

Meanwhile a result gets from task to task, and new tasks make their calls.
"""
_ERRORS = {
    e.__name__: e
    for e in (
        errors.WaitTimeout,
        errors.WaitRefused,
        errors.JobFailed,
        errors.ApprovalExpired,
        errors.ChildConflict,
    )
}
_ASKED_AGAIN = (errors.WaitRefused.__name__, errors.ChildFailed.__name__)
"""A replay of the job asks again for a wait that raised one of these."""


class Waits:
    """The waits of one run; `bodies` has the wait that an event ended, by event."""

    def __init__(
        self,
        session: RunSession,
        history: History,
        steps: Steps,
        artifacts: Artifacts,
        replies: Replies,
    ) -> None:
        self.bodies: dict[str, str] = {}
        self._session = session
        self._history = history
        self._steps = steps
        self.artifacts = artifacts
        self._replies = replies
        self._awaited: list[tuple[Wait, ...]] = []  # by each task, together
        self._listened: set[str] = set()

    def pending(
        self,
        call: Call,
        wait: Wait,
        given: Callable[[Any], Awaitable[Any]],
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> Pending:
        """A wait that is asked now; `given` makes what the handler gets of its value.

        `before` is called before the run parks for the wait.
        """
        redacted(wait, self._session.redaction)  # refuses one that names a secret
        return Pending(self, call, wait, given, before)

    def busy(self) -> AbstractContextManager[None]:
        """Something is under way that the run does not park before."""
        return self._session.busy()

    def left(self, wait: Pending) -> StepResult | None:
        """What an ended wait left; None while it is open."""
        return self._history.found(wait.call)

    def failed(self, wait: Pending) -> None:
        """Note that a wait raises: the handler may take another way where it does not."""
        self._history.failed(wait.call.id)

    async def listen(self, wait: Pending) -> Pending:
        """Open a wait now, and go on; see `Context.listen`."""
        _check_place(wait)
        if self.left(wait) is None:
            self._listened.add(wait.call.id)
            check_number(len(self._listened))
            with self._session.busy():
                await may_begin(self._session, self._history, wait.call)
                await self._steps.keep_marks()
                await self._listen(wait)
        return wait

    async def first(self, call: Call, waits: dict[str, Pending]) -> tuple[str, Any]:
        """The first that ends; see `Context.first`."""
        left = self._history.found(call)
        if left is None:
            with self._history.awaited(call):
                await self.ends(tuple(waits.values()), needs_all=False)
            name = self._first_ended(waits)
            if self._is_asked_again(waits[name]):  # by a replay
                return name, await waits[name].given_now()
            left = self._history.result(call, value=to_json(name, "first"))
            with self._session.busy():
                await self._steps.keep(left)
        name = from_json(left.value)
        if name not in waits or self.left(waits[name]) is None:
            await diverge(self._session, call, self._history.chosen_before(left, waits))
        return name, await waits[name].given_now()

    async def all(self, waits: tuple[Pending, ...]) -> list[Any]:
        """All values; see `Context.all`."""
        await self.ends(waits, needs_all=True)
        failed = {wait: wait for wait in waits if (left := self.left(wait)) and _raises(left)}
        if failed:
            await self._first_ended(failed).given_now()  # raises it
        return [await wait.given_now() for wait in waits]

    def _is_asked_again(self, wait: Pending) -> bool:
        left = self.left(wait)
        return left is not None and left.raises in _ASKED_AGAIN

    def _first_ended(self, waits: Mapping[_Name, Pending]) -> _Name:
        """The name of the wait that ended first, as its partition's order of records has it.

        A time that was over before an event came has that event's number.
        """
        ended = {name: left for name, wait in waits.items() if (left := self.left(wait))}
        return min(ended, key=lambda name: (ended[name].number, _is_event(ended[name])))

    async def ends(self, waits: tuple[Pending, ...], *, needs_all: bool) -> None:
        """Return once one wait has ended, or all or one with an error have; else the run parks."""
        self._session.check()
        done = [left for wait in waits if (left := self.left(wait)) is not None]
        if (done and not needs_all) or len(done) == len(waits) or any(map(_raises, done)):
            return
        _check_place(waits[0])
        self._steps.check_room()
        with self._history.awaited(*(wait.call for wait in waits)):
            await self._wait(waits, needs_all)

    async def _wait(self, waits: tuple[Pending, ...], needs_all: bool) -> None:
        with self._session.busy():
            for wait in waits:
                if self.left(wait) is None:
                    await may_begin(self._session, self._history, wait.call)
                    await self._prepare(wait)
            await self._steps.keep_marks()
        open_ = [wait.asked for wait in waits if self.left(wait) is None]
        group = tuple(replace(asked, needs_all=needs_all) for asked in open_)
        self._awaited.append(group)
        try:
            await self._park()
        finally:
            self._awaited.remove(group)

    async def _prepare(self, wait: Pending) -> None:
        if wait.before is not None:
            await wait.before()
            self._session.check()

    async def _park(self) -> None:
        """End the run once nothing else is under way."""
        quiet, seen = 0, len(self._awaited)
        while quiet < _TURNS:
            await self._session.quiet()
            await asyncio.sleep(0)
            same = seen == len(self._awaited) and self._session.is_quiet
            quiet, seen = quiet + 1 if same else 0, len(self._awaited)
        handler = self._session.task
        if self._session.is_over() or (handler is not None and handler.done()):
            raise self._stopped("the run is over")
        waits = grouped(self._awaited)
        self._session.stop(RunResult(PARKED, waits=waits))
        raise self._stopped("the run is parked")

    def _stopped(self, why: str) -> BaseException:
        """What unwinds the present task.

        One that the handler has made is cancelled: asyncio would log an error that nobody awaits.
        """
        is_own = self._session.task in (None, asyncio.current_task())
        return RunStopped(why) if is_own else asyncio.CancelledError(why)

    async def _listen(self, wait: Pending) -> None:
        claim_id = new_id("clm")

        def body() -> Listen:
            run_id = self._session.lease.run_id
            return Listen(claim_id, run_id, wait.asked)

        reply = await ask(self._session, self._replies, claim_id, body)
        if reply.kind != "listening":
            self._session.lose(reply.message or "the dispatcher gave the job to another run")
            raise LeaseLost(f"wait {wait.call.id} does not begin: the run is over")


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A wait that a handler asked for; await it for what it gives, as often as you like.

    It raises `WaitTimeout` if its time is over, and `WaitRefused` if it cannot begin.
    """

    _waits: Waits
    call: Call
    asked: Wait
    _given: Callable[[Any], Awaitable[Any]]
    before: Callable[[], Awaitable[None]] | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._value().__await__()

    async def given_now(self) -> Any:
        """What an ended wait gives; raises what it left instead of a value."""
        left = self._waits.left(self)
        if left is None:
            raise PermanentError(f"wait {self.call.id} has not ended")
        if left.digest != self.asked.digest:
            raise errors.WaitRefused(
                f"{self.call.id}: the job waited under this name for something else: give another "
                "wait another name"
            )
        if left.raises is not None:
            self._waits.failed(self)
            raise _error(left)
        with self._waits.busy():
            return await self._given(await self._waits.artifacts.value(left.value))

    async def _value(self) -> Any:
        await self._waits.ends((self,), needs_all=False)
        return await self.given_now()


def _error(left: StepResult) -> PermanentError:
    if left.raises == errors.ChildFailed.__name__:
        return errors.ChildFailed(**from_json(left.value))
    return _ERRORS.get(left.raises or "", PermanentError)(left.message)


def _check_place(wait: Pending) -> None:
    if is_inside(current_branch()):
        raise PermanentError(
            f"wait {wait.call.id}: no step or effect waits: wait in the handler itself"
        )


def _is_event(left: StepResult) -> bool:
    return left.kind == "event" and not _raises(left)


def _raises(left: StepResult) -> bool:
    return left.raises is not None
