"""Calls in threads that go on after nobody waits for them any more: a thread cannot be ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from streams.process.daemon_thread import in_daemon_thread, named

T = TypeVar("T")


class LeftCalls:
    """Makes calls in threads, and knows how many of them were left and have not ended yet."""

    def __init__(self) -> None:
        self._left: dict[object, float] = {}

    def __len__(self) -> int:
        return len(self._left)

    def hanging(self, seconds: float) -> int:
        """How many were left so long ago, and have not ended."""
        latest = time.monotonic() - seconds
        return sum(since <= latest for since in tuple(self._left.values()))

    async def make(self, function: Callable[[], T], late: Callable[[T], object] | None = None) -> T:
        """What the function returns; cancelling ends the wait, and the call is left.

        Raises:
            NoThread: no thread could be started, so the function was not called.
        """
        this, ended = object(), threading.Event()

        def made() -> T:
            try:
                return function()
            finally:
                ended.set()
                self._left.pop(this, None)

        made.__qualname__ = named(function)  # by which its thread is known in a dump of them
        try:
            return await in_daemon_thread(made, late)
        except asyncio.CancelledError:
            self._left[this] = time.monotonic()
            if ended.is_set():
                self._left.pop(this, None)
            raise
