"""Bounds the bytes that are held at once; whoever finds the window full waits in turn."""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """Gives out the bytes in the order of the calls; belongs to one event loop."""

    def __init__(self, total_bytes: int) -> None:
        self._free = total_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def try_enter(self, size: int) -> bool:
        """Take the bytes if they are free and nobody waits."""
        if self._waiting or size > self._free:
            return False
        self._free -= size
        return True

    async def enter(self, size: int) -> None:
        """Wait in turn, then take the bytes (at most the whole window); `leave` returns them."""
        if self.try_enter(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._let_in()  # those behind it in the queue may fit now
            else:
                self.leave(size)  # it already has its bytes
            raise

    def leave(self, size: int) -> None:
        """Return the bytes, and let waiting callers in."""
        self._free += size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if size > self._free:
                    return
                self._free -= size
                turn.set_result(None)
            self._waiting.popleft()
