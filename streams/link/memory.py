"""A connection to an owner in memory: frames are handed over when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from streams.link.grant import Grant
from streams.link.owner import Owner
from streams.link.requests import Request
from streams.serde.link import frames
from streams.serde.link.messages import FromOwner, FromWorker


class MemoryConnection:
    """A worker's connection without a socket, for tests and simulations of both ends.

    What the owner sends waits until `receive` or `frame` takes it, as in a socket's buffer.
    """

    def __init__(self, owner: Owner, grant: Grant) -> None:
        self.woken = 0
        self._owner = owner
        self.peer = owner.opened(grant, self._wake)

    @property
    def ended(self) -> bool:
        """Whether the owner has ended it; what it said before can still be received."""
        return self.peer.ended

    @property
    def full(self) -> bool:
        """Whether the owner reads no more for now."""
        return self.peer.full

    def send(self, *messages: FromWorker) -> list[Request]:
        """Send a frame; the requests in it that the server of the owner has to answer."""
        return self.send_frame(frames.frame(messages))

    def send_frame(self, frame: bytes) -> list[Request]:
        """Send the bytes of a frame."""
        return self._owner.received(self.peer, frame)

    def receive(self) -> Sequence[FromOwner]:
        """Receive all that the owner has sent."""
        received: list[FromOwner] = []
        while frame := self.frame():
            received += frames.from_owner(frame)
        return received

    def frame(self) -> bytes:
        """Receive the next frame; it is empty if there is none."""
        return self._owner.outgoing(self.peer)

    def cut(self) -> None:
        """Break the connection: what waits on either side of it is lost."""
        self._owner.closed(self.peer)
        while self.frame():
            pass

    def _wake(self) -> None:
        self.woken += 1
