"""Work that many readers ask for at once is done once for all of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from streams.api.read_model.database import is_damage

T = TypeVar("T")
Look = Callable[[sqlite3.Connection], Any]
Tenants = frozenset[str] | None
"""Whose rows exist for a look; None for everybody's."""

_AT_ONCE = 64
"""So many readers are read in one snapshot; the others wait for the next one."""


class _Waiting(NamedTuple):
    """A reader that waits for what its look returns."""

    look: Look
    tenants: Tenants
    found: asyncio.Future[Any]


class SharedReads:
    """Reads for all readers that wait in one thread, instead of in one each.

    Those who may see the same tenants are read in one snapshot.
    """

    def __init__(self, query: Callable[[Look, Tenants], Awaitable[Any]]) -> None:
        self._query = query
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Read nothing more, and return once no thread reads: then the file may be closed."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.found.cancel()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def read(self, look: Callable[[sqlite3.Connection], T], tenants: Tenants = None) -> T:
        """Return what `look` returns, or raise what it raises.

        With `tenants`, only their rows exist for it.

        Raises:
            ConnectionResetError: the process ends.
        """
        if self._is_closed:
            raise ConnectionResetError("the process ends: read on elsewhere")
        found: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(look, tenants, found))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await found

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._read(self._next())
        finally:
            self._running = None

    def _next(self) -> list[_Waiting]:
        """Take those who are read next: the first, and others who may see what it may see."""
        tenants, batch, left = self._waiting[0].tenants, list[_Waiting](), list[_Waiting]()
        for each in self._waiting:
            is_next = each.tenants == tenants and len(batch) < _AT_ONCE
            (batch if is_next else left).append(each)
        self._waiting = left
        return batch

    async def _read(self, batch: list[_Waiting]) -> None:
        looks = [each.look for each in batch]
        try:
            results = await self._query(
                lambda db: [_looked(look, db) for look in looks], batch[0].tenants
            )
        except Exception as error:
            results = [error] * len(looks)
        for each, result in zip(batch, results, strict=True):
            if each.found.done():
                continue
            if isinstance(result, Exception):
                each.found.set_exception(result)
            else:
                each.found.set_result(result)


def _looked(look: Look, connection: sqlite3.Connection) -> Any:
    try:
        return look(connection)
    except Exception as error:
        if isinstance(error, sqlite3.Error) and is_damage(error):
            raise  # the file is to be built anew, which is for the database to note
        return error


class Rounds:
    """An action that one call does for all who asked before it began."""

    def __init__(self, action: Callable[[], Awaitable[None]]) -> None:
        self._action = action
        self._next: asyncio.Task[None] | None = None
        self._present: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Return once the action has been done from its beginning; raise what it raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._round(self._present))
        await asyncio.shield(self._next)

    async def _round(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        self._present, self._next = self._next, None
        await self._action()
