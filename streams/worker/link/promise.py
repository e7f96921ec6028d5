"""A future of the running event loop for what another thread tells later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def promise(begin: Callable[[Callable[[T | Exception], None]], None]) -> asyncio.Future[T]:
    """Call `begin` at once. The future gets what `begin`'s argument is called with, in any thread.

    An exception is raised by it; one that nobody awaits is not logged.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_looked_at)

    def resolve(result: T | Exception) -> None:
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def told(result: T | Exception) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(resolve, result)

    begin(told)
    return future


def _looked_at(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
