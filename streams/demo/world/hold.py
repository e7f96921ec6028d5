"""Keeps a request to the outside world without an answer, until the process behind it is dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Hold(Generic[T]):
    """Keeps the next request that `wanted` accepts without an answer until `release`."""

    def __init__(self, wanted: Callable[[T], bool]) -> None:
        self._wanted = wanted
        self._released = asyncio.Event()
        self.request: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def release(self) -> None:
        """Let the request go, whose sender may be gone, or stop waiting for one."""
        self._released.set()
        self.request.cancel()

    async def keeps(self, request: T) -> bool:
        """Report a wanted request, and return True once it is released; False for any other."""
        if self.request.done() or not self._wanted(request):
            return False
        self.request.set_result(request)
        await self._released.wait()
        return True


async def kept(holds: Iterable[Hold[T]], request: T) -> bool:
    """Return whether one of these kept the request, once that has released it."""
    for hold in holds:
        if await hold.keeps(request):
            return True
    return False
