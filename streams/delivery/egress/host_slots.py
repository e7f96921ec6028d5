"""At most N requests at a time to one host, in turns among those that share it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class HostSlots:
    """Requests to a host wait for each other before their own time begins to count.

    Its sharers (endpoints) take turns, so that one with many requests does not hold up the others.
    """

    def __init__(self, per_host: int) -> None:
        self._per_host = per_host
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def of(self, host: str, sharer: Hashable) -> AsyncIterator[None]:
        """Hold one of the host's slots."""
        slots = self._hosts.setdefault(host, _Host(self._per_host))
        await slots.enter(sharer)
        try:
            yield
        finally:
            slots.leave()
            if slots.free == self._per_host:
                del self._hosts[host]


class _Host:
    """The slots of one host; nobody waits while one is free."""

    def __init__(self, slots: int) -> None:
        self.free = slots
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    async def enter(self, sharer: Hashable) -> None:
        if self.free:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sharer, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it has its slot already
                self.leave()
            raise

    def leave(self) -> None:
        """Give the slot to the next sharer, or keep it free."""
        self.free += 1
        while self._waiting and self.free:
            sharer, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[sharer] = turns
            if not turn.cancelled():
                self.free -= 1
                turn.set_result(None)
