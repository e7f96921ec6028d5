"""What stands between a handler and its tools: fakes, a list of calls, and points to stop at."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from streams.errors import PermanentError
from streams.testing.stops import Place, Stops
from streams.testing.values import Call
from streams.testing.virtual_loop import waits_outside
from streams.worker.handler.invoke import call, is_async


@dataclass(slots=True)
class Fake:
    """Answers in place of a tool, after `takes` virtual seconds.

    Of `answers` each call takes the next, the last one repeats: an error is raised, a function
    is called as the tool's would be, anything else is returned.
    """

    answers: Sequence[object]
    takes: float
    calls: int = 0

    async def __call__(self, **arguments: Any) -> Any:
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        await asyncio.sleep(self.takes)
        if isinstance(answer, type) and issubclass(answer, BaseException):
            raise answer
        if isinstance(answer, BaseException):
            # The same error may have been raised before: it must not carry that with it.
            answer.__traceback__ = answer.__context__ = None
            raise answer
        return await called(answer, **arguments) if callable(answer) else answer


class Tools:
    """The tools of one bench. `strict`: a tool without a fake is not called.

    `fault` is what the test did not provide for; it is raised in the test.
    """

    def __init__(self, strict: bool, now: Callable[[], float], stops: Stops) -> None:
        self.calls: list[Call] = []
        self.returned: list[Call] = []
        self.fault: str | None = None
        self._strict = strict
        self._now = now
        self._stops = stops
        self._fakes: dict[str, Fake] = {}

    def fake(self, name: str, fake: Fake) -> None:
        """From now on a tool, or one action of it (`tool/key`), is this fake."""
        self._fakes[name] = fake

    def happened(self, lifetimes: Mapping[str, float]) -> list[Call]:
        """The calls that returned, without those that a tool has recognised by their key.

        `lifetimes` are the seconds for which each tool knows a key; 0 for one that honours none.
        """
        first: dict[str, Call] = {}
        found = []
        for each in self.returned:
            known_since = first.setdefault(each.idempotency_key, each)
            known = each is not known_since
            if not known or each.at - known_since.at >= lifetimes.get(each.tool, 0.0):
                found.append(each)
                first[each.idempotency_key] = each
        return found

    def in_place_of(
        self, function: Callable[..., Any], place: Place, given: Collection[str]
    ) -> Callable[..., Any]:
        """The function that is called for a tool, with the parameters of the application's own.

        `given` names the arguments that come from the handler, and not from the worker.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            return function  # refused where it is checked

        async def made(**arguments: Any) -> Any:
            await self._stops.reached(place, done=False)
            target = self._target(function, place)
            own = {name: value for name, value in arguments.items() if name in given}
            made_now = self._noted(place, own, arguments["idempotency_key"])
            self.calls.append(made_now)
            result = await called(target, **arguments)
            self.returned.append(made_now)
            await self._stops.reached(place, done=True)
            return result

        return _shaped_as(function, made)

    def _target(self, function: Callable[..., Any], place: Place) -> Callable[..., Any]:
        fake = self._fakes.get(place.action) or self._fakes.get(place.name)
        if fake is not None:
            return fake
        if self._strict:
            self.fault = (
                f"effect {place.action} of job {place.job_id} has no fake, and the bench is "
                f"strict: add bench.fake({place.name!r}, returns=...)"
            )
            raise PermanentError(self.fault)
        return function

    def _noted(self, place: Place, own: dict[str, Any], key: str) -> Call:
        return Call(place.name, place.key or "", own, key, place.job_id, place.attempt, self._now())


async def called(function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    """Call a function of the application; the loop waits for it where it runs in a thread."""
    if is_async(function):
        return await call(partial(function, *args, **arguments))
    with waits_outside():
        return await call(partial(function, *args, **arguments))


def _shaped_as(
    function: Callable[..., Any], made: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    """Show the application's own parameters, which are checked before anything is claimed."""
    try:
        made.__signature__ = inspect.signature(  # type: ignore[attr-defined]
            function, follow_wrapped=False
        )
    except ValueError:  # a builtin that tells nothing: it is called as it is
        return made
    except TypeError:  # no function at all: refused where it is checked
        return function
    made.__qualname__ = getattr(function, "__qualname__", None) or repr(function)
    return made
