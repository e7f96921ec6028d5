"""Bounds what is held at once; whoever finds no room waits, and tenants take turns."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_Turn = tuple[int, asyncio.Future[None]]


class SharedRoom:
    """Gives room to tenants in turns, and to each in the order of its calls; for one event loop.

    With a `share` a tenant that holds room gets more only while all of its room is at most so many
    times what stays free. So tenants that hold theirs for long leave room for others.
    """

    def __init__(self, total: int, share: int | None = None) -> None:
        self._free = total
        self._share = share
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Turn]] = OrderedDict()

    @asynccontextmanager
    async def of(self, tenant_id: str, size: int) -> AsyncIterator[None]:
        """Hold room as long as the context lasts."""
        await self.enter(tenant_id, size)
        try:
            yield
        finally:
            self.leave(tenant_id, size)

    def try_enter(self, tenant_id: str, size: int) -> bool:
        """Take room if it is free and nobody waits."""
        if self._waiting or size > self._free or not self._shares(tenant_id, size):
            return False
        self._take(tenant_id, size)
        return True

    async def enter(self, tenant_id: str, size: int) -> None:
        """Wait in turn, then take room (at most all that there is); `leave` returns it."""
        if self.try_enter(tenant_id, size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append((size, turn))
        self._let_in()  # the others may wait for their own share alone
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._drop(tenant_id, (size, turn))
            else:
                self.leave(tenant_id, size)  # it already has its room
            raise

    def leave(self, tenant_id: str, size: int) -> None:
        """Return room, and let waiting callers in."""
        self._free += size
        self._held[tenant_id] -= size
        if not self._held[tenant_id]:
            del self._held[tenant_id]
        self._let_in()

    def _shares(self, tenant_id: str, size: int) -> bool:
        held = self._held[tenant_id] if self._share is not None else 0
        return not held or held + size <= (self._share or 0) * (self._free - size)

    def _take(self, tenant_id: str, size: int) -> None:
        self._free -= size
        self._held[tenant_id] += size

    def _drop(self, tenant_id: str, given_up: _Turn) -> None:
        line = self._waiting.get(tenant_id, deque())
        if given_up in line:
            line.remove(given_up)
            if not line:
                del self._waiting[tenant_id]
            self._let_in()  # those behind it may fit now

    def _let_in(self) -> None:
        """Let in the first of each tenant in turns, until one needs more than is free."""
        turns = deque(self._waiting)
        while turns:
            tenant_id = turns.popleft()
            line = self._waiting[tenant_id]
            size, turn = line[0]
            if not turn.cancelled():
                if size > self._free:
                    return  # nobody overtakes it
                if not self._shares(tenant_id, size):
                    continue
                self._take(tenant_id, size)
                turn.set_result(None)
            line.popleft()
            self._waiting.move_to_end(tenant_id)
            if line:
                turns.append(tenant_id)
            else:
                del self._waiting[tenant_id]
