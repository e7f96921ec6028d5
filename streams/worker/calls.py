"""Calls what an application hands in, async or not."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The function's result, whatever its arguments are called; one not async runs in a thread.

    Cancelling ends the wait, not the thread: what it does after that is unknown.
    """
    if _is_async(function):
        return await function(*args, **kwargs)
    result = await _in_thread(partial(function, *args, **kwargs))
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """A daemon thread for each call: one that hangs takes no other's place in a pool, and
    does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def finish(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def body() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stop:
            # A future refuses to hold one.
            error = RuntimeError(f"{function} raised {stop!r}")
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=body, name=f"call-{function}", daemon=True).start()
    return await future
