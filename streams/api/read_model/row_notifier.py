"""Wakes tasks that wait for a change of a row in the read model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from streams.api.rows.table import RowKey

T = TypeVar("T")
FOLDED = "folded"
"""With a topic, a partition and an offset: all records before that are rows and are announced."""

Listener = Callable[[Sequence[RowKey]], None]


class RowNotifier:
    """Wakes waiters of a row: waiters run in one event loop, any thread calls `announce`.

    `hurry` is set while anybody waits or listens.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.hurry = threading.Event()
        self._waiting: dict[RowKey, set[asyncio.Event]] = {}
        self.folded: dict[tuple[str, int], int] = {}
        """Of each topic's partition, the offset before which all rows have been announced here."""
        self._listeners: list[Listener] = []

    def announce(self, changed: Iterable[RowKey]) -> None:
        """Wake the waiters of rows whose changes are committed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, list(changed))

    def listen(self, listener: Listener) -> None:
        """Call a listener in the event loop with the rows of each change, until `dismiss`."""
        self._listeners.append(listener)
        self.hurry.set()

    def dismiss(self, listener: Listener) -> None:
        """Call a listener no more."""
        self._listeners.remove(listener)
        self._rest()

    async def until(
        self,
        key: RowKey,
        look: Callable[[], Awaitable[T | None]],
        seconds: float,
        others: Sequence[RowKey] = (),
    ) -> T | None:
        """Call `look` now and after each change of a row until it returns a result.

        Return None after `seconds`.
        """
        deadline = time.monotonic() + seconds
        changed = asyncio.Event()
        for each in (key, *others):
            self._waiting.setdefault(each, set()).add(changed)
        self.hurry.set()
        try:
            while (found := await look()) is None:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await changed.wait()
                changed.clear()
            return found
        except TimeoutError:
            return None
        finally:
            for each in (key, *others):
                self._forget(each, changed)
            self._rest()

    def _rest(self) -> None:
        if not self._waiting and not self._listeners:
            self.hurry.clear()

    def _wake(self, changed: Sequence[RowKey]) -> None:
        for table, key in changed:
            if table == FOLDED:
                self.folded[key[0], key[1]] = key[2]
        for listener in self._listeners:
            listener(changed)
        for key in changed:
            for event in self._waiting.get(key, ()):
                event.set()

    def _forget(self, key: RowKey, event: asyncio.Event) -> None:
        waiters = self._waiting[key]
        waiters.discard(event)
        if not waiters:
            del self._waiting[key]
