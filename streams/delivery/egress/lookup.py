"""Addresses of names from the system's resolver, which may hang."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from streams.process.daemon_thread import in_daemon_thread

_MOST_AT_ONCE = 256


class SystemLookup:
    """Looks names up in threads, each name once at a time, at most 256 names at a time.

    A look-up cannot be interrupted. Callers that give up leave it running, and the next caller for
    the same name joins it: a name whose servers hang holds one thread. Answers are not kept. An
    object serves one event loop.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}
        self._free = asyncio.Semaphore(_MOST_AT_ONCE)

    async def __call__(self, name: str) -> Sequence[str]:
        """All addresses of a name in the order in which the system prefers them.

        Raises:
            OSError: the name has none, or no name server answers.
        """
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.create_task(self._look_up(name))
            task.add_done_callback(lambda done: self._ended(name, done))
        return await asyncio.shield(task)

    async def _look_up(self, name: str) -> list[str]:
        async with self._free:
            return await in_daemon_thread(lambda: _addresses(name))

    def _ended(self, name: str, task: asyncio.Task[list[str]]) -> None:
        del self._under_way[name]
        if not task.cancelled():
            task.exception()  # somebody has to look, even if every caller has given up


async def system_lookup(name: str) -> Sequence[str]:
    """All addresses of a name; OSError if it has none."""
    return await in_daemon_thread(lambda: _addresses(name))


def _addresses(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))
