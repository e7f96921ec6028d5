"""At most N requests at a time to one host; tenants take turns, and so do the endpoints of each."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class HostSlots:
    """Requests to a host wait for each other before their own time begins to count.

    A tenant that has many endpoints there, or many requests, does not hold up another tenant.
    """

    def __init__(self, per_host: int) -> None:
        self._per_host = per_host
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def of(self, host: str, tenant_id: str, endpoint_id: str) -> AsyncIterator[None]:
        """Hold one of the host's slots."""
        slots = self._hosts.setdefault(host, _Host(self._per_host))
        await slots.enter(tenant_id, endpoint_id)
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
        self._waiting: OrderedDict[str, OrderedDict[str, deque[asyncio.Future[None]]]]
        self._waiting = OrderedDict()  # by tenant and endpoint

    async def enter(self, tenant_id: str, endpoint_id: str) -> None:
        if self.free:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        endpoints = self._waiting.setdefault(tenant_id, OrderedDict())
        endpoints.setdefault(endpoint_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it has its slot already
                self.leave()
            raise

    def leave(self) -> None:
        """Give the slot to the next tenant, or keep it free."""
        self.free += 1
        while self._waiting and self.free:
            turn = self._next()
            if not turn.cancelled():
                self.free -= 1
                turn.set_result(None)

    def _next(self) -> asyncio.Future[None]:
        """Take the first turn of the tenant and of its endpoint that have waited longest."""
        tenant_id, endpoints = self._waiting.popitem(last=False)
        endpoint_id, turns = endpoints.popitem(last=False)
        turn = turns.popleft()
        if turns:
            endpoints[endpoint_id] = turns
        if endpoints:
            self._waiting[tenant_id] = endpoints
        return turn
