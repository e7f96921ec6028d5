"""A worker's connection to the owner of partitions, over a network that stands still and breaks.

Each end writes into a buffer of the network. What is on its way arrives in order, later, or, if the
connection breaks, only its first part does.
"""

from __future__ import annotations

from random import Random

from streams.link.grant import Grant
from streams.link.memory import MemoryConnection
from streams.link.owner import Owner
from streams.serde.link import frames
from streams.serde.link.messages import Acked, FromOwner, Order
from streams.worker.link.link import Link

_GRANT = Grant("", "simulation")


class Wire:
    """The `Connection` of a worker's link to an owner, of which `name` is the address."""

    def __init__(self, link: Link, owner: Owner, name: str) -> None:
        self.name = name
        self._link = link
        self._ends = MemoryConnection(owner, _GRANT)
        self._out: list[bytes] = []
        self._in: list[FromOwner] = []
        self._told: list[tuple[int, int, str]] = []
        self.is_open = True
        self.loses_ack_of: str | None = None
        """A kind of command, and any for an empty text: at its acknowledgement this breaks."""

    def __len__(self) -> int:
        """How many messages of the worker are on their way."""
        return len(self._out)

    def send(self, message: bytes) -> None:
        """See `Connection.send`."""
        if self.is_open:
            self._out.append(message)
            (said,) = frames.from_worker(frames.joined([message]))
            if isinstance(said, Order) and said.job_id:
                self._told.append((said.partition, said.number, said.kind))

    def close(self, why: str) -> None:
        """See `Connection.close`: both ends know at once."""
        self._ends.cut()
        self.lose(why)

    def lose(self, why: str) -> None:
        """The worker's end breaks; the owner does not know yet."""
        if self.is_open:
            self.is_open = False
            self._out.clear()
            self._in.clear()
            self._link.closed(self, why)

    def carry_out(self, most: int | None = None) -> bool:
        """Bring the owner what the worker has sent; whether there was anything."""
        out, self._out = self._out[:most], self._out[len(self._out[:most]) :]
        if out:
            self._ends.send_frame(frames.joined(out))
        return bool(out)

    def carry_in(self, most: int | None = None) -> bool:
        """Bring the worker what the owner has sent; whether there was anything."""
        self._in += self._ends.receive()
        came = len(self._in[:most])
        for _ in range(came):
            if self._in and self.is_open:
                self._give(self._in.pop(0))
        if self._ends.ended and not self._in and self.is_open:
            self.close("the owner has ended it")
        return bool(came)

    def _give(self, message: FromOwner) -> None:
        if isinstance(message, Acked) and self._is_lost(message):
            self.close("it broke before an acknowledgement came")
        else:
            self._link.received(self, frames.frame([message]))

    def _is_lost(self, acked: Acked) -> bool:
        """Whether this is the acknowledgement that does not arrive."""
        told, self._told = self._told, []
        kinds = []
        for partition, number, kind in told:
            if number > acked.numbers.get(partition, 0):
                self._told.append((partition, number, kind))
            else:
                kinds.append(kind)
        lost = self.loses_ack_of
        return lost is not None and bool(kinds) and lost in ("", *kinds)

    def snap(self, r: Random, *, known: bool) -> None:
        """Break: a first part of what is on its way arrives at either end.

        The owner knows at once if the break is `known`.
        """
        if not self.is_open:
            return
        self.carry_out(r.randint(0, len(self._out)))
        self.carry_in(r.randint(0, len(self._in)))
        if known:
            self._ends.cut()
        self.lose("the network broke")

    def die(self, arrived: int) -> None:
        """The worker's process is gone; so many of its messages arrive."""
        if self.is_open:
            self.carry_out(arrived)
            self.is_open = False
            self._ends.cut()
