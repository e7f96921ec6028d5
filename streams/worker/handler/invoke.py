"""Calls the functions of an application, async or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from streams.process.daemon_thread import in_daemon_thread


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call the function and return its result; a function that is not async runs in a thread.

    Cancelling ends the wait but not the thread, whose later outcome is unknown.
    """
    if is_async(function):
        return await function(*args, **kwargs)
    result = await in_daemon_thread(partial(function, *args, **kwargs))
    return await result if inspect.isawaitable(result) else result


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
