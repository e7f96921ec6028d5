"""A worker's producer: it sends in order, and sends again what it got no answer for.

It is the `Transport` of the product's heartbeats, too. Nothing is lost while the process lives; a
record whose deadline passes on the way is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from streams.errors import KafkaUnavailable
from streams.serde.records import PayloadRef
from streams.worker.transport.contract import Done, Inbox

Deadline = Callable[[], float]
Acked = Callable[[bool], None]
"""True once the broker has the record; False where the deadline came first."""

DELIVERY_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Letter:
    """A record of `jobs.commands` on its way; `until` is a moment in seconds."""

    partition: int
    key: bytes
    value: bytes
    until: Deadline
    acked: Acked


class OutboxModel:
    """`append` gives a record to the broker, `now` is in seconds; `open` says whether it can."""

    def __init__(
        self, append: Callable[[Letter], None], now: Callable[[], float], open_: Callable[[], bool]
    ) -> None:
        self._append = append
        self._now = now
        self._open = open_
        self._waiting: deque[Letter] = deque()
        self._again: list[Letter] = []
        self.lose_next_ack = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)

    def post(self, letter: Letter) -> None:
        self._waiting.append(letter)
        self.flush()

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        """`Transport.send`."""
        until = self._now() + DELIVERY_SECONDS

        def acked(ok: bool) -> None:
            done(None if ok else KafkaUnavailable(f"{topic}: it was not delivered in time"))

        self.post(Letter(partition, key, value, lambda: until, acked))

    def flush(self) -> None:
        """Send all that waits, then what was sent before without an answer."""
        if not self._open():
            return
        again, self._again = self._again, []
        while self._waiting:
            letter = self._waiting.popleft()
            if self._in_time(letter):
                self._append(letter)
                self._answer(letter)
        for letter in again:
            if self._in_time(letter):
                self._append(letter)
                letter.acked(True)

    def die(self, arrived: int) -> None:
        """The process is killed; so many of the records on their way arrive."""
        for letter in list(self._waiting)[:arrived]:
            self._append(letter)
        self._waiting.clear()
        self._again.clear()

    def start(self, inbox: Inbox) -> None:
        """Nothing is read here."""

    def close(self) -> None:
        """Nothing is held open."""

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        raise AssertionError("no job of a story has a body")

    def _answer(self, letter: Letter) -> None:
        if self.lose_next_ack:
            self.lose_next_ack = False
            self._again.append(letter)
        else:
            letter.acked(True)

    def _in_time(self, letter: Letter) -> bool:
        if self._now() < letter.until():
            return True
        letter.acked(False)
        return False
