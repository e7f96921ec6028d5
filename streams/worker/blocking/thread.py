"""Runs a plain function as a handler, in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from streams.errors import LeaseLost, TransientError
from streams.process.daemon_thread import NoThread, in_daemon_thread
from streams.worker.blocking.calls import made
from streams.worker.blocking.context import BlockingContext, view_of

if TYPE_CHECKING:
    from streams.worker.handler.context import Context


class InThread:
    """A handler that calls a plain function in a thread. The slot stays taken until that ends."""

    def __init__(self, function: Callable[[BlockingContext[Any]], Any]) -> None:
        self._function = function

    async def __call__(self, ctx: Context[Any]) -> Any:
        calls = _Calls(ctx, asyncio.get_running_loop())
        run = partial(self._function, BlockingContext(view_of(ctx), calls))
        thread = asyncio.ensure_future(in_daemon_thread(partial(_caught, run)))
        try:
            value, error = await asyncio.shield(thread)
        except NoThread as error:
            raise TransientError(str(error)) from error
        except asyncio.CancelledError:
            calls.close()
            await _ended(thread)
            raise
        finally:
            calls.close()
        if error is not None:
            raise error
        return value


class _Calls:
    """The calls that a thread makes in the loop; `close` ends those that wait.

    It is made in the loop's own thread, which can make none: it would wait for itself for ever, and
    all other runs with it.
    """

    def __init__(self, ctx: Context[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._ctx = ctx
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._lock = threading.Lock()
        self._open: set[concurrent.futures.Future[Any]] = set()
        self._closed = False

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() == self._thread_id:
            raise RuntimeError(
                f"ctx.{name} blocks: call it in no async function, but in a plain one"
            )
        with self._lock:
            if self._closed or self._loop.is_closed():
                raise LeaseLost(f"run {self._ctx.run_id} is over: it starts nothing more")
            call = made(self._ctx, name, args, kwargs)
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
            self._open.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise LeaseLost(f"run {self._ctx.run_id} is over: it starts nothing more") from None
        finally:
            self._open.discard(future)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting = list(self._open)
        for future in waiting:
            future.cancel()


def _caught(run: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What a function returned, or raised: a `SystemExit` in a task would end the loop."""
    try:
        return run(), None
    except BaseException as error:
        return None, error


async def _ended(thread: asyncio.Future[Any]) -> None:
    """Return once a thread has ended, however often the run is cancelled meanwhile."""
    while not thread.done():
        try:
            await asyncio.wait({thread})
        except asyncio.CancelledError:
            continue
