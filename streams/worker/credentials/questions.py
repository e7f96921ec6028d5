"""Questions that block: each in a thread, and none a second time while it hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from streams.process.daemon_thread import in_daemon_thread

T = TypeVar("T")


class Questions(Generic[T]):
    """Asks `function`, which may hang for ever, as files of a network's drive do.

    Whoever asks the same meanwhile shares the thread: otherwise each of them would leave one
    behind, until the process can start no more. Belongs to one event loop.
    """

    def __init__(self, function: Callable[[str], T]) -> None:
        self._function = function
        self._asked: dict[str, asyncio.Task[T]] = {}

    async def ask(self, what: str) -> T:
        """What the function returns or raises; cancelling ends only the wait."""
        task = self._asked.get(what)
        if task is None:
            question = in_daemon_thread(partial(self._function, what))
            task = self._asked[what] = asyncio.ensure_future(question)
            task.add_done_callback(partial(self._answered, what))
        return await asyncio.shield(task)

    def _answered(self, what: str, task: asyncio.Task[T]) -> None:
        del self._asked[what]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone: nobody else looks at it
