"""Addresses of names from the system's resolver, which may hang."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager

from streams.process.daemon_thread import in_daemon_thread
from streams.process.shared_room import SharedRoom

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Answers all addresses of a name; OSError if there are none."""

_MOST_AT_ONCE, _SHARE = 256, 3


class Lookups:
    """Looks names up, each name once at a time, at most 256 names at a time; for one event loop.

    A look-up cannot be interrupted. Callers that give up leave it running, and the next caller for
    the same name joins it, so a name whose servers hang holds one thread. Tenants take turns, and
    one whose names hang leaves a quarter of what is free to the others. Answers are not kept.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._under_way: dict[str, asyncio.Task[Sequence[str]]] = {}
        self._room = SharedRoom(_MOST_AT_ONCE, _SHARE)

    async def addresses(
        self, name: str, tenant_id: str, waiting: Callable[[], AbstractContextManager[None]]
    ) -> Sequence[str]:
        """All addresses of a name; `waiting` is entered while the tenant waits for its turn.

        Raises:
            OSError: the name has none, or no name server answers.
        """
        if name not in self._under_way:
            with waiting():
                await self._room.enter(tenant_id, 1)
            if name in self._under_way:  # another caller was first
                self._room.leave(tenant_id, 1)
            else:
                self._begin(name, tenant_id)
        return await asyncio.shield(self._under_way[name])

    def _begin(self, name: str, tenant_id: str) -> None:
        async def look_up() -> Sequence[str]:
            return await self._resolve(name)

        def ended(task: asyncio.Task[Sequence[str]]) -> None:
            del self._under_way[name]
            self._room.leave(tenant_id, 1)
            if not task.cancelled():
                task.exception()  # somebody has to look, even if every caller has given up

        task = self._under_way[name] = asyncio.create_task(look_up())
        task.add_done_callback(ended)


async def system_lookup(name: str) -> Sequence[str]:
    """All addresses of a name in the order in which the system prefers them; OSError if none."""
    return await in_daemon_thread(lambda: _addresses(name))


def _addresses(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))
