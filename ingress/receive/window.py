"""Bounds what is on the way to Kafka: who finds it full waits for its turn."""

from __future__ import annotations

import asyncio
from collections import deque

WINDOW_BYTES = 16 * 1024 * 1024
"""Of plain chunks being sent. Each is held about three times over meanwhile: sealed, in the
producer's queue, and in the request on the wire."""


class Window:
    """Bytes that may be sent at once, given out in the order of asking; of one event loop."""

    def __init__(self, total_bytes: int = WINDOW_BYTES) -> None:
        self._free = total_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def try_enter(self, size: int) -> bool:
        """Take the bytes if they are free and nobody waits."""
        if self._waiting or size > self._free:
            return False
        self._free -= size
        return True

    async def enter(self, size: int) -> None:
        """Take the bytes, at most the whole window, in turn; `leave` gives them back."""
        if self.try_enter(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._let_in()  # whom it kept waiting
            else:
                self.leave(size)  # it had just been let in
            raise

    def leave(self, size: int) -> None:
        """Give bytes back."""
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
