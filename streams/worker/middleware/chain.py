"""The middleware of one worker, each around the next, and what an error in it makes of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import structlog

from streams import user_json
from streams.errors import PermanentError
from streams.serde.run_ends import SUCCEEDED, RunEnd
from streams.worker.handler.handler_error import result_of, says_it_is_over
from streams.worker.handler.run_result import RunResult, blame
from streams.worker.middleware.contract import EffectCall, GoOn, GoOnWithEffect, Middleware, Run

log = structlog.get_logger(__name__)


class Chain:
    """Goes through the middleware; `members` are in their order, outermost first."""

    def __init__(self, members: Iterable[Middleware]) -> None:
        self._members = tuple(members)
        inside_out = self._members[::-1]
        self._of_runs = [m for m in inside_out if type(m).run is not Middleware.run]
        self._of_effects = [m for m in inside_out if type(m).effect is not Middleware.effect]

    async def run(self, run: Run, handler: GoOn) -> RunResult:
        """How a run of the handler ended, as the outermost middleware has it."""
        inner: GoOn = handler
        for member in self._of_runs:
            inner = _AroundRun(member, run, inner)
        return await inner()

    async def effect(self, effect: EffectCall, claim_and_call: GoOnWithEffect) -> Any:
        """The result of an effect, as the outermost middleware has it."""
        inner: GoOnWithEffect = claim_and_call
        for member in self._of_effects:
            inner = _AroundEffect(member, effect, inner)
        return await inner()

    def close(self) -> None:
        """Tell each middleware that the worker ends."""
        for member in self._members:
            try:
                member.close()
            except Exception:
                log.exception("middleware could not be closed", middleware=type(member).__name__)


class _AroundRun:
    """One middleware around one run; it tells errors of the middleware from those within it.

    A class, because closures for each run would take longer.
    """

    __slots__ = ("_began", "_inner", "_member", "_passed", "_result", "_run")

    def __init__(self, member: Middleware, run: Run, inner: GoOn) -> None:
        self._member = member
        self._run = run
        self._inner = inner
        self._began = False
        self._result: RunResult | None = None
        self._passed: BaseException | None = None

    async def __call__(self) -> RunResult:
        try:
            found: object = await self._member.run(self._run, self._go_on)
            return self._result if found is self._result and self._result else _checked(found)
        except BaseException as error:
            if error is self._passed or says_it_is_over(error, self._run.session):
                raise
            return self._failed(error)
        finally:
            self._passed = None  # its traceback has this frame: do not keep the circle

    async def _go_on(self) -> RunResult:
        if self._began:
            raise PermanentError("run() awaits go_on() twice: a run calls its handler once")
        self._began = True
        try:
            self._result = await self._inner()
        except BaseException as error:
            self._passed = error
            raise
        return self._result

    def _failed(self, error: BaseException) -> RunResult:
        """The result of a middleware that raised; how the run within it failed goes before."""
        blame(error, type(self._member).__name__)
        own = result_of(error, self._run.session)
        before = self._result
        return own if before is None or before.status == SUCCEEDED else before


def _checked(found: object) -> RunResult:
    """A result that a middleware has made itself.

    Raises:
        PermanentError: it is none that can be reported.
    """
    if not isinstance(found, RunResult):
        raise PermanentError(f"run() returned {found!r}: return what `await go_on()` gives")
    if found.status not in get_args(RunEnd):
        raise PermanentError(f"run() returned the status {found.status!r}, which no run has")
    try:
        user_json.read("null" if found.result is None else found.result)
    except ValueError:
        raise PermanentError(
            "run() returned a result that is no text of JSON: write the value with json.dumps()"
        ) from None
    return found


class _AroundEffect:
    """One middleware around one effect; its own errors get its name, and go to the handler."""

    __slots__ = ("_began", "_effect", "_inner", "_member", "_passed")

    def __init__(self, member: Middleware, effect: EffectCall, inner: GoOnWithEffect) -> None:
        self._member = member
        self._effect = effect
        self._inner = inner
        self._began = False
        self._passed: BaseException | None = None

    async def __call__(self) -> Any:
        try:
            return await self._member.effect(self._effect, self._go_on)
        except Exception as error:
            if error is not self._passed:
                blame(error, type(self._member).__name__)
            raise
        finally:
            self._passed = None

    async def _go_on(self) -> Any:
        if self._began:
            raise PermanentError("effect() awaits go_on() twice: an effect is claimed once")
        self._began = True
        try:
            return await self._inner()
        except BaseException as error:
            self._passed = error
            raise
