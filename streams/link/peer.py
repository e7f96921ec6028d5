"""A worker's connection as the owner of partitions sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from streams.link.grant import Grant
from streams.link.outgoing import Outgoing
from streams.runtime.processor import Record
from streams.serde.link.frames import encoded
from streams.serde.link.messages import FromOwner, Hello

MOST_WAITING = 1_000
"""With so many commands waiting, no more are read from a connection."""
MOST_WAITING_BYTES = 4 * 1024 * 1024
"""The same for their size: a frame may add its own."""


class Peer:
    """One connection; the owner's lock guards it.

    `ready` only wakes the thread of the server, which then looks at `Owner.outgoing`, `full` and
    `ended`. `read_at` is when a frame was last taken to be sent, or began to wait. `lost` are the
    partitions that this process has lost since the connection was told of them, or spoke of them.
    """

    def __init__(self, grant: Grant, ready: Callable[[], object], now: float) -> None:
        self.grant = grant
        self.hello: Hello | None = None
        self.worker_id = self.name = ""
        self.heard_at = self.read_at = now
        self.waiting: deque[Waiting] = deque()
        self.waiting_bytes = 0
        self.outgoing = Outgoing()
        self.lost: set[int] = set()
        self.ended = False
        self.replaced = False
        self._ready = ready

    @property
    def full(self) -> bool:
        """Whether so many commands wait that no more should be read."""
        many = len(self.waiting) >= MOST_WAITING
        return many or self.waiting_bytes >= MOST_WAITING_BYTES

    def say(self, *messages: FromOwner) -> None:
        """Send messages by and by."""
        for message in messages:
            self.send(encoded(message))

    def send(self, message: bytes) -> None:
        """Send an encoded message by and by; one that has ended drops it."""
        if not self.ended:
            self.outgoing.add(message)
            self.wake()

    def wake(self) -> None:
        """Have the server look at this connection."""
        self._ready()

    def detach(self) -> None:
        """Forget the server's side, which refers to this one."""
        self._ready = _nothing


def _nothing() -> None:
    """What the end of a connection leaves to do."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A command that was read and is not committed; it has a record once it was taken.

    `value` is the encoded command, not a part of the frame that it came in: that may be large.
    """

    peer: Peer
    partition: int
    number: int
    value: bytes
    record: Record | None = None
