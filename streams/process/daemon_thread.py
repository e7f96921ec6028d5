"""Threads that may hang without harm to others: they never keep the process from ending."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")


class NoThread(RuntimeError):
    """No thread could be started, so nothing was called."""


class DaemonThread:
    """A daemon thread that runs `body` once, in the context (of log lines) that it is made in.

    `body` returns soon after `stopping` is set. An exception of `body` goes to `failed`, in the
    thread; without `failed` it is logged.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], object],
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        self.stopping = threading.Event()
        self._body = body
        self._failed = failed
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, and return at once."""
        self._thread.start()

    def stop(self, seconds: float | None = None) -> None:
        """Set `stopping`, and wait until the thread has ended, at most `seconds` if given."""
        self.stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._body()
        except Exception as error:
            if self._failed is None:
                log.exception("a thread failed: its work has ended", thread=self._thread.name)
            else:
                self._failed(error)


def named(function: Callable[..., object]) -> str:
    """What a function is called, without its arguments: to show them may take long, or fail."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)  # the method of a remote proxy answers any name
    return name if isinstance(name, str) else type(function).__name__


async def in_daemon_thread(
    function: Callable[[], T], late: Callable[[T], object] | None = None
) -> T:
    """Return what the function returns, or raise what it raises; cancelling ends only the wait.

    Each call has its own thread: one that hangs takes no other's place in a pool. `late` gets, in
    the event loop, what a function returns after the wait was cancelled.

    Raises:
        NoThread: no thread could be started, so the function was not called.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)
        elif late is not None and set_outcome == future.set_result:
            late(outcome)

    def tell(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, set_outcome, outcome)

    def body() -> None:
        try:
            tell(future.set_result, function())
        except StopIteration as stop:  # which a future refuses to hold
            told = f"{named(function)} raised {stop!r}"
            tell(future.set_exception, RuntimeError(told))
        except BaseException as error:
            tell(future.set_exception, error)

    try:
        DaemonThread(f"call-{named(function)}", body).start()
    except RuntimeError as error:
        raise NoThread(f"{error}: too many calls hang, give them timeouts") from error
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and future.exception() is None:
            finish(future.set_result, future.result())  # it came together with the cancelling
        raise
