"""The rules of a middleware, to be checked for one of your own: `rule(Mine())` for each rule."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

from streams.errors import LeaseLost
from streams.serde.run_ends import CANCELLED, FAILED, PARKED, RETRY, SUCCEEDED
from streams.testing.middleware_stage import Around, Code, MiddlewareStage, require, within_patience
from streams.worker.handler.run_result import RunResult, RunStopped
from streams.worker.middleware.contract import Run
from streams.worker.middleware.stack import Member

_AT_ONCE, _ONE_BY_ONE = 100, 50
_ENDS = (
    RunResult(SUCCEEDED, result="1"),
    RunResult(RETRY, error="TransientError: busy", retry_after_seconds=7),
    RunResult(FAILED, error="PermanentError: never"),
    RunResult(PARKED),
)

Check = Callable[[MiddlewareStage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; call it with a middleware, as `app.middleware.add` takes it.

    Raises:
        AssertionError: the middleware breaks it.
    """

    name: str
    check: Check

    def __call__(self, member: Member) -> None:
        asyncio.run(self._checked(member))

    def __str__(self) -> str:
        return self.name

    async def _checked(self, member: Member) -> None:
        await self.check(MiddlewareStage(member))


def middleware_rules() -> list[Rule]:
    """Every rule that a middleware keeps around runs and around effects."""
    return [Rule(check.__name__.strip("_").replace("_", " "), check) for check in _CHECKS]


async def _passes_the_result_of_a_run(stage: MiddlewareStage) -> None:
    for end in _ENDS:
        found = await stage.around_run(stage.new_run(), _giving(end))
        require(found == end, f"go_on() gave {end}, and run() returned {found}")


async def _passes_the_result_of_an_effect(stage: MiddlewareStage) -> None:
    found = await stage.around_effect(stage.new_run(), _giving({"id": "re_1"}))
    require(found == {"id": "re_1"}, f"go_on() gave another result than effect() returned: {found}")


async def _passes_the_error_of_an_effect(stage: MiddlewareStage) -> None:
    error = TimeoutError("the tool did not answer")
    found = await stage.begin(stage.around_effect, _raising(error)).error()
    require(found is error, f"go_on() raised {error!r}, and effect() ended with {found!r}")


async def _runs_a_handler_once(stage: MiddlewareStage) -> None:
    for end in _ENDS:
        begun = await _times_begun(stage, stage.around_run, _giving(end))
        require(begun <= 1, f"run() awaits go_on() {begun} times after {end.status}")


async def _claims_an_effect_once(stage: MiddlewareStage) -> None:
    for code in (_giving(1), _raising(TimeoutError("no answer"))):
        begun = await _times_begun(stage, stage.around_effect, code)
        require(begun <= 1, f"effect() awaits go_on() {begun} times")


async def _lets_a_cancelled_run_end(stage: MiddlewareStage) -> None:
    for around in (stage.around_run, stage.around_effect):
        stands = asyncio.Event()

        async def stand(run: Run, stands: asyncio.Event = stands) -> None:
            stands.set()
            await asyncio.Event().wait()

        passing = stage.begin(around, stand)
        await within_patience(stands.wait(), "go_on() is never awaited")
        passing.run.session.stop(RunResult(CANCELLED, error="no longer needed"))
        await passing.ends_with(asyncio.CancelledError)


async def _lets_a_stopped_run_end(stage: MiddlewareStage) -> None:
    async def park(run: Run) -> None:
        run.session.stop(RunResult(PARKED))
        raise RunStopped("the run is parked")

    for around in (stage.around_run, stage.around_effect):
        await stage.begin(around, park).ends_with(RunStopped)


async def _lets_a_lost_run_end(stage: MiddlewareStage) -> None:
    async def lose(run: Run) -> None:
        run.session.lose("no heartbeat was acknowledged in time")
        raise LeaseLost("the run is over")

    for around in (stage.around_run, stage.around_effect):
        await stage.begin(around, lose).ends_with(LeaseLost)


async def _serves_many_runs_at_once(stage: MiddlewareStage) -> None:
    async def pass_(number: int) -> None:
        run, end = stage.new_run(), RunResult(SUCCEEDED, result=str(number))
        is_own = await stage.around_run(run, _giving(end, turns=number % 7)) == end
        is_own &= await stage.around_effect(run, _giving(number, turns=number % 5)) == number
        require(is_own, "a run got what belongs to another one")

    together = asyncio.gather(*(pass_(number) for number in range(_AT_ONCE)))
    await within_patience(together, f"{_AT_ONCE} runs at once do not end")


async def _keeps_nothing_of_a_run(stage: MiddlewareStage) -> None:
    before = _variables()
    sessions = [await _ended(stage, _ENDS[number % 2]) for number in range(_ONE_BY_ONE)]
    await asyncio.sleep(0)
    gc.collect()
    kept = sum(session() is not None for session in sessions)
    require(not kept, f"it keeps {kept} of {_ONE_BY_ONE} runs that have ended")
    left = asyncio.all_tasks() - {asyncio.current_task()}
    require(not left, f"it leaves tasks behind: {left}")
    require(_variables() == before, "it leaves context variables changed")


_CHECKS: tuple[Callable[[MiddlewareStage], Any], ...] = (
    _passes_the_result_of_a_run,
    _passes_the_result_of_an_effect,
    _passes_the_error_of_an_effect,
    _runs_a_handler_once,
    _claims_an_effect_once,
    _lets_a_cancelled_run_end,
    _lets_a_stopped_run_end,
    _lets_a_lost_run_end,
    _serves_many_runs_at_once,
    _keeps_nothing_of_a_run,
)


def _giving(value: Any, *, turns: int = 1) -> Code:
    """Code that ends with a value after some turns of the loop."""

    async def give(run: Run) -> Any:
        for _ in range(turns):
            await asyncio.sleep(0)
        return value

    return give


def _raising(error: Exception) -> Code:
    async def raise_(run: Run) -> Any:
        raise error

    return raise_


async def _times_begun(stage: MiddlewareStage, around: Around, code: Code) -> int:
    """How often a middleware goes on with one run or effect."""
    begun = 0

    async def counted(run: Run) -> Any:
        nonlocal begun
        begun += 1
        return await code(run)

    await stage.begin(around, counted).error()
    return begun


def _variables() -> dict[ContextVar[Any], Any]:
    """The context variables that are set; structlog sets `...` for one that is not bound."""
    return {name: value for name, value in copy_context().items() if value is not ...}


async def _ended(stage: MiddlewareStage, end: RunResult) -> weakref.ref[Any]:
    """The session of a run that has passed the middleware and ended."""
    run = stage.new_run()
    await stage.around_effect(run, _giving(1))
    await stage.around_run(run, _giving(end))
    return weakref.ref(run.session)
