"""The connection of a worker in memory: it can be cut, and it ends with its process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from streams.link.answering import Answering
from streams.link.grant import Grant
from streams.link.memory import MemoryConnection
from streams.link.owner import Owner
from streams.serde.link import frames
from streams.serde.link.messages import Acked, FromOwner, FromWorker, Leased, Order
from streams.serde.records import Lease
from streams.worker.link.link import Link

_GRANT = Grant("", "bench")


@dataclass(frozen=True, slots=True)
class Watch:
    """Called at what goes over a link; each call may kill the worker's process.

    `sent` is called before a command is sent and, with True, before its acknowledgement. `leased`
    is called before a lease is given to the worker.
    """

    sent: Callable[[Order, bool], None]
    leased: Callable[[Lease], None]


class Wire:
    """One connection of a worker to the pipeline. Frames wait here until `exchange`.

    It is the worker's `Connection`, and that of the requests which `answering` answers, in the
    worker's event loop.
    """

    name = "the pipeline"

    def __init__(
        self,
        link: Link,
        owner: Owner,
        answering: Answering,
        watch: Watch,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._link = link
        self._owner = owner
        self._answering = answering
        self._watch = watch
        self._loop = loop
        self._ends = MemoryConnection(owner, _GRANT)
        self._asker = _Asker(owner, self._ends)
        self._waiting: list[FromWorker] = []
        self._orders: dict[int, list[Order]] = {}
        self.is_open = True

    def send(self, message: bytes) -> None:
        (said,) = frames.from_worker(frames.joined([message]))
        if self.is_open and isinstance(said, Order):
            self._watch.sent(said, False)
        if self.is_open:
            self._waiting.append(said)
            if isinstance(said, Order):
                self._orders.setdefault(said.partition, []).append(said)

    def close(self, why: str) -> None:
        """Nothing goes through any more; the worker knows."""
        if self.is_open:
            self._end()
            self._link.closed(self, why)

    def end(self) -> None:
        """Its process is gone; what it has sent arrives."""
        if self.is_open:
            self._send()
            self._end()

    def exchange(self, flow: Callable[[], None]) -> bool:
        """Pass on what both ends have for each other; whether there was anything.

        `flow` lets the pipeline process what has come.
        """
        sent = self.is_open and self._send()
        if sent:
            flow()
        received = self._ends.receive() if self.is_open else ()
        for message in received:
            self._give(message)
        if self.is_open and self._ends.ended:
            self.close("the pipeline has ended the connection")
        return sent or bool(received)

    def _send(self) -> bool:
        waiting, self._waiting = self._waiting, []
        for request in self._ends.send(*waiting) if waiting else ():
            self._loop.call_soon(self._answering.ask, self._asker, request)
        return bool(waiting)

    def _give(self, message: FromOwner) -> None:
        """Give the worker a message, unless it dies before."""
        match message:
            case Acked(numbers=numbers):
                for partition, number in numbers.items():
                    self._acknowledge(partition, number)
            case Leased(lease=lease):
                self._watch.leased(lease)
        if self.is_open:
            self._link.received(self, frames.frame([message]))

    def _acknowledge(self, partition: int, number: int) -> None:
        orders = self._orders.get(partition, [])
        while orders and orders[0].number <= number and self.is_open:
            self._watch.sent(orders.pop(0), True)

    def _end(self) -> None:
        self.is_open = False
        self._answering.closed(self._asker)
        self._ends.cut()


class _Asker:
    """The connection over which requests are answered."""

    def __init__(self, owner: Owner, ends: MemoryConnection) -> None:
        self._owner = owner
        self._ends = ends

    @property
    def worker_id(self) -> str:
        return self._ends.peer.worker_id

    @property
    def grant(self) -> Grant:
        return self._ends.peer.grant

    def send(self, message: FromOwner) -> None:
        self._owner.say(self._ends.peer, message)

    async def room(self) -> None:
        """There is room always."""
