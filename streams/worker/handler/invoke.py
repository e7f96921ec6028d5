"""Calls the functions of an application, async or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from streams.errors import TransientError
from streams.process.daemon_thread import NoThread
from streams.worker.handler.left_calls import LeftCalls

LEFT = LeftCalls()
"""Functions of this process's applications that go on after their runs are over."""


async def call(function: Callable[[], Any], late: Callable[[Any], object] | None = None) -> Any:
    """Call the function and return its result; a function that is not async runs in a thread.

    Cancelling ends the wait but not the thread; `late` gets what that returns afterwards.

    Raises:
        TransientError: no thread could be started, so the function was not called.
    """
    if is_async(function):
        return await function()
    try:
        result = await LEFT.make(function, late and partial(_unless_awaitable, late))
    except NoThread as error:
        raise TransientError(str(error)) from error
    return await result if inspect.isawaitable(result) else result


def _unless_awaitable(late: Callable[[Any], object], result: Any) -> None:
    """Pass on a result, unless it is only the promise of one."""
    if not inspect.isawaitable(result):
        late(result)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
