"""Handlers that are not async: virtual time keeps their pace while their own code runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from streams.testing.virtual_loop import waits_inside, waits_outside
from streams.worker.blocking.parent import InProcess
from streams.worker.blocking.thread import InThread
from streams.worker.handler.context import Context
from streams.worker.job_types import JobFunction

_WITH_FUNCTION = ("step", "effect")


def runs_outside(function: JobFunction) -> bool:
    """Whether the handler's own code runs in a thread or a process."""
    return isinstance(function, InThread | InProcess)


async def run_outside(function: JobFunction, ctx: Context) -> Any:
    """Run such a handler: time may jump only while it waits for a call of its context."""
    calls = _Calls(ctx, functions_outside=isinstance(function, InProcess))
    with waits_outside():
        return await function(cast("Context", calls))


class _Calls:
    """The context of such a handler. `functions_outside`: those of its steps run in its process."""

    def __init__(self, ctx: Context, *, functions_outside: bool) -> None:
        self._ctx = ctx
        self._functions_outside = functions_outside

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ctx, name)
        if not inspect.ismethod(found):
            return found
        return partial(self._made, found, has_function=name in _WITH_FUNCTION)

    def _made(
        self, method: Callable[..., Any], *args: Any, has_function: bool, **kwargs: Any
    ) -> Any:
        if has_function and self._functions_outside:
            args = (args[0], partial(_outside, args[1]), *args[2:])
        value = method(*args, **kwargs)
        return _inside(value) if inspect.isawaitable(value) else value


async def _outside(perform: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
    with waits_outside():
        return await perform(*args, **kwargs)


async def _inside(call: Awaitable[Any]) -> Any:
    with waits_inside():
        return await call
