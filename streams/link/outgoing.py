"""The messages that wait to be sent over one connection, within bounds."""

from __future__ import annotations

from collections import deque

from streams.serde.link import frames

MOST_BYTES = 16 * 1024 * 1024
"""With more than this waiting, a worker has to go on reading."""
_LIMIT_BYTES = 256 * 1024 * 1024
"""With more than this waiting, it is too slow however it reads."""
_FRAME_BYTES = 1024 * 1024


class Outgoing:
    """Encoded messages in their order; `size` is how many bytes wait. It is not thread-safe."""

    def __init__(self) -> None:
        self.size = 0
        self._messages: deque[bytes] = deque()

    @property
    def full(self) -> bool:
        """Whether more waits than the worker may leave unread for long."""
        return self.size > MOST_BYTES

    @property
    def overflows(self) -> bool:
        """Whether more waits than the owner keeps for any worker."""
        return self.size > _LIMIT_BYTES

    def add(self, message: bytes) -> None:
        """Send a message by and by."""
        self._messages.append(message)
        self.size += len(message)

    def take(self) -> bytes:
        """Take a frame of the messages that have waited longest; it is empty if none waits."""
        taken: list[bytes] = []
        room = _FRAME_BYTES
        while self._messages and (room >= len(self._messages[0]) or not taken):
            taken.append(self._messages.popleft())
            room -= len(taken[-1])
        self.size -= sum(map(len, taken))
        return frames.joined(taken) if taken else b""

    def clear(self) -> None:
        """Forget what waits."""
        self._messages.clear()
        self.size = 0
