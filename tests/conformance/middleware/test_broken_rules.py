"""A middleware that breaks a rule is found by that rule, so that the rules say something."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import Any

import pytest

from streams.middleware import EffectCall, GoOn, GoOnWithEffect, Middleware, Run, RunResult
from streams.testing import middleware_rules

SEEN: ContextVar[str] = ContextVar("seen", default="")


class KeepsTheResult(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        await go_on()
        return RunResult("succeeded", result="null")


class KeepsTheEffectsResult(Middleware):
    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> None:
        await go_on()


class TurnsErrorsIntoResults(Middleware):
    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        with contextlib.suppress(TimeoutError):
            return await go_on()


class RunsFailedHandlersAgain(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        result = await go_on()
        return await go_on() if result.status == "retry" else result


class ClaimsAgain(Middleware):
    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        try:
            return await go_on()
        except TimeoutError:
            return await go_on()


class IgnoresCancellation(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        try:
            return await go_on()
        except asyncio.CancelledError:
            return RunResult("retry")


class CatchesEverything(Middleware):
    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        try:
            return await go_on()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, TimeoutError):
                raise
            return None


class RetriesLostRuns(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        try:
            return await go_on()
        except Exception:
            return RunResult("retry")


class MixesRuns(Middleware):
    result = RunResult("succeeded")

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        self.result = await go_on()
        await asyncio.sleep(0)
        return self.result


class KeepsRuns(Middleware):
    def __init__(self) -> None:
        self.runs: list[Run] = []

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        self.runs.append(run)
        return await go_on()


class LeavesTasksBehind(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        self.task = asyncio.create_task(asyncio.Event().wait())
        return await go_on()


class LeavesVariablesChanged(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        SEEN.set(run.job_id)
        return await go_on()


@pytest.mark.parametrize(
    ("member", "broken"),
    [
        (KeepsTheResult(), "passes the result of a run"),
        (KeepsTheEffectsResult(), "passes the result of an effect"),
        (TurnsErrorsIntoResults(), "passes the error of an effect"),
        (RunsFailedHandlersAgain(), "runs a handler once"),
        (ClaimsAgain(), "claims an effect once"),
        (IgnoresCancellation(), "lets a cancelled run end"),
        (CatchesEverything(), "lets a stopped run end"),
        (RetriesLostRuns(), "lets a lost run end"),
        (MixesRuns(), "serves many runs at once"),
        (KeepsRuns(), "keeps nothing of a run"),
        (LeavesTasksBehind(), "keeps nothing of a run"),
        (LeavesVariablesChanged(), "keeps nothing of a run"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Middleware) else "",
)
def test_a_broken_rule_is_found(member: Middleware, broken: str) -> None:
    (rule,) = [rule for rule in middleware_rules() if rule.name == broken]
    with pytest.raises(AssertionError):
        rule(member)
