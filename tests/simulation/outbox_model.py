"""A worker's producer: it sends in order, and sends again what it got no answer for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

Deadline = Callable[[], float]
Acked = Callable[[bool], None]
"""True once the broker has the record; False where the deadline came first."""


@dataclass(slots=True, eq=False)
class Letter:
    partition: int
    key: bytes
    value: bytes
    until: Deadline
    acked: Acked


class OutboxModel:
    """`send` appends to the broker, `now` is in seconds."""

    def __init__(self, send: Callable[[Letter], None], now: Callable[[], float]) -> None:
        self._send = send
        self._now = now
        self._waiting: deque[Letter] = deque()
        self._again: list[Letter] = []
        self.lose_next_ack = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)

    def post(self, letter: Letter) -> None:
        self._waiting.append(letter)

    def flush(self) -> None:
        """Send all that waits, then what was sent before without an answer."""
        again, self._again = self._again, []
        while self._waiting:
            letter = self._waiting.popleft()
            if not self._in_time(letter):
                continue
            self._send(letter)
            if self.lose_next_ack:
                self.lose_next_ack = False
                self._again.append(letter)
            else:
                letter.acked(True)
        for letter in again:
            if self._in_time(letter):
                self._send(letter)
                letter.acked(True)

    def die(self, arrived: int) -> None:
        """The process is killed; so many of the records on their way arrive."""
        for letter in list(self._waiting)[:arrived]:
            self._send(letter)
        self._waiting.clear()
        self._again.clear()

    def _in_time(self, letter: Letter) -> bool:
        if self._now() < letter.until():
            return True
        letter.acked(False)
        return False
