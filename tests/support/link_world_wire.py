"""A connection in `link_world`, on which frames are delayed and lost."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING

from streams.link.memory import MemoryConnection
from streams.serde.link import frames
from support.linked_workers import ALL

if TYPE_CHECKING:
    from support.link_world_owner import OwnerProcess
    from support.link_world_worker import WorkerProcess


class Wire:
    """A connection of a worker to an owner: each end learns of its end in its own time."""

    def __init__(self, worker: WorkerProcess, owner: OwnerProcess) -> None:
        self.name = owner.name
        self.worker, self.owner = worker, owner
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.is_whole = True
        self.worker_knows = self.owner_knows = False
        self.far = MemoryConnection(owner.core, ALL)
        worker.link.opened(self)

    # The worker's `Connection`.

    def send(self, message: bytes) -> None:
        if self.is_whole and not self.worker_knows:
            self.up.append(message)

    def close(self, why: str) -> None:
        self.cut()

    # The world's side.

    def cut(self) -> None:
        """Lose what is on the way."""
        self.is_whole = False
        self.up.clear()
        self.down.clear()

    def deliver_up(self, most: int) -> None:
        """Let the owner read up to so many messages as one frame."""
        if self.is_whole and not self.far.full and not self.far.ended and self.up:
            messages = [self.up.popleft() for _ in range(min(most, len(self.up)))]
            self.far.send_frame(frames.joined(messages))

    def deliver_down(self) -> None:
        """Let the worker read a frame; the end of the connection comes behind the last one."""
        while self.is_whole and (frame := self.far.frame()):
            self.down.append(frame)
        if self.down:
            self.worker.link.received(self, self.down.popleft())
        elif self.far.ended and self.is_whole:
            self.cut()

    def check_counted(self) -> None:
        """The owner has counted each lease that the worker has read."""
        peer = self.far.peer
        if self.owner.core._roster._known.get(peer.worker_id) is peer:
            received = self.worker.held_leases.tell(self)[1]
            assert received <= self.owner.views[peer.worker_id].sent

    def tell(self, rng: Random) -> None:
        """Let one end notice that the connection is broken."""
        if self.is_whole:
            return
        if not self.worker_knows and (self.owner_knows or rng.random() < 0.5):
            self.worker_knows = True
            self.worker.link.closed(self, "cut")
        elif not self.owner_knows:
            self.owner_knows = True
            self.far.cut()
