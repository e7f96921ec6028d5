"""The state of the payload reader in one partition: waiting requests and records read ahead."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf

from streams.serde.records import PayloadRef

READ_AHEAD = 100
"""How many records to read past rather than seek: jobs come in about the order of their events."""
_MOST_BYTES_AHEAD = 1024 * 1024
_ROUND_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class Body:
    """A body that a caller waits for, and its chunks that were read."""

    ref: PayloadRef
    future: Future[list[bytes]]
    asked_at: float
    chunks: list[bytes] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        return self.ref.offsets[len(self.chunks)]


@dataclass(slots=True, eq=False)
class Lane:
    """One partition: its bodies, and the offset that comes next; None if a seek is needed.

    `round_at` is when the present round through the log began. `ahead` holds the offsets and values
    that were read before anybody asked for them: the bodies of one partition are asked for in about
    the order of the log, and each seek costs milliseconds.
    """

    partition: int
    moved_at: float
    bodies: list[Body] = field(default_factory=list)
    current: Body | None = None
    round_at: float = -inf
    position: int | None = None
    ahead: deque[tuple[int, bytes | None]] = field(default_factory=deque)
    ahead_bytes: int = 0

    @property
    def overfull(self) -> bool:
        """Whether too many of the bodies that it has read ahead were not requested."""
        return len(self.ahead) > READ_AHEAD or self.ahead_bytes > _MOST_BYTES_AHEAD

    def hold(self, offset: int, value: bytes | None) -> None:
        """Keep a record that was read until its turn comes."""
        if not self.ahead:
            self.position = offset
        self.ahead.append((offset, value))
        self.ahead_bytes += len(value or b"")

    def take(self) -> tuple[int, bytes | None]:
        """The next record that was read."""
        offset, value = self.ahead.popleft()
        self.ahead_bytes -= len(value or b"")
        self.position = self.ahead[0][0] if self.ahead else offset + 1
        return offset, value

    def move(self, offset: int | None) -> None:
        """Come to another offset, and forget what was read before."""
        self.ahead.clear()
        self.ahead_bytes, self.position = 0, offset

    def next_body(self, now: float) -> Body | None:
        """The next body in the order of the log from here on: each jump costs milliseconds.

        A body requested after some seconds of a round waits for the next one: otherwise a body
        behind would wait for as long as others ahead are asked for.
        """
        here = self.position or 0
        while self.bodies:
            body = min(self._of_round(now), key=lambda b: (b.next_offset < here, b.next_offset))
            self.bodies.remove(body)
            if body.future.set_running_or_notify_cancel():
                return body
        return None

    def _of_round(self, now: float) -> list[Body]:
        until = self.round_at + _ROUND_SECONDS
        joined = [body for body in self.bodies if body.asked_at < until]
        if not joined:
            self.round_at = now
        return joined or self.bodies
