"""Memory for large answers, shared out fairly among tenants and connections.

Who waits has no thread and no memory but the request. Tenants have turns and, within each, the
connections. Whose turn it is gets room as soon as there is enough, so that a large answer does not
wait behind small ones for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class _Waiting:
    tenant: str
    connection: object
    size: int
    admitted: asyncio.Future[None]


class FairRoom:
    """So many bytes in all; a tenant has at most a half of them, and a connection a quarter.

    What is larger than a share gets room once its tenant, or connection, has nothing else. It
    belongs to one event loop.
    """

    def __init__(self, in_all: int) -> None:
        self._in_all = in_all
        self._of_tenant = in_all // 2
        self._of_connection = in_all // 4
        self._taken = 0
        self._tenants = Counter[str]()
        self._connections = Counter[object]()
        self._waiting: OrderedDict[str, OrderedDict[object, deque[_Waiting]]] = OrderedDict()

    @property
    def taken(self) -> int:
        """How many bytes are taken."""
        return self._taken

    @asynccontextmanager
    async def room(self, tenant: str, connection: object, size: int) -> AsyncIterator[None]:
        """Take so many bytes within the block, once it is the turn of tenant and connection."""
        asked = _Waiting(tenant, connection, size, asyncio.get_running_loop().create_future())
        turns = self._waiting.setdefault(tenant, OrderedDict())
        turns.setdefault(connection, deque()).append(asked)
        self._admit()
        try:
            await asked.admitted
            yield
        finally:
            self._leave(asked)

    def _leave(self, asked: _Waiting) -> None:
        admitted = asked.admitted
        if admitted.done() and not admitted.cancelled():
            self._taken -= asked.size
            _give_back(self._tenants, asked.tenant, asked.size)
            _give_back(self._connections, asked.connection, asked.size)
        self._admit()

    def _admit(self) -> None:
        while (asked := self._next()) is not None and _fits(self._taken, asked, self._in_all):
            self._waiting[asked.tenant][asked.connection].popleft()
            self._end_turn(asked)
            self._taken += asked.size
            self._tenants[asked.tenant] += asked.size
            self._connections[asked.connection] += asked.size
            asked.admitted.set_result(None)

    def _next(self) -> _Waiting | None:
        """Return whose turn it is, among those whose tenant and connection have room of theirs."""
        for tenant, turns in list(self._waiting.items()):
            for connection in list(turns):
                asked = self._first(tenant, connection)
                if asked is not None and self._has_share(asked):
                    return asked
        return None

    def _first(self, tenant: str, connection: object) -> _Waiting | None:
        """Return the first request of a connection that still waits; forget a turn without any."""
        turns = self._waiting[tenant]
        own = turns[connection]
        while own and own[0].admitted.done():
            own.popleft()
        if own:
            return own[0]
        del turns[connection]
        if not turns:
            del self._waiting[tenant]
        return None

    def _has_share(self, asked: _Waiting) -> bool:
        of_tenant, own = self._tenants[asked.tenant], self._connections[asked.connection]
        return _fits(of_tenant, asked, self._of_tenant) and _fits(own, asked, self._of_connection)

    def _end_turn(self, asked: _Waiting) -> None:
        self._waiting[asked.tenant].move_to_end(asked.connection)
        self._waiting.move_to_end(asked.tenant)


def _fits(taken: int, asked: _Waiting, limit: int) -> bool:
    return taken == 0 or taken + asked.size <= limit


def _give_back(taken: Counter[K], of: K, size: int) -> None:
    taken[of] -= size
    if taken[of] == 0:
        del taken[of]
