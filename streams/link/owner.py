"""The owner's end of the link: its connections, and what of their commands is committed.

It knows no sockets, threads or clock of its own. Two threads call it: that of the server, which
reads and writes the connections, and that of the stage, whose calls are those of `runtime.link`.

What a worker said of a partition may still be on its way when the partition comes back to this
process. So a connection that was told of the partition before is cut before it would be told of it
again: then all that comes was said to the present owner. Otherwise an old heartbeat would pass for
the worker's introduction, and a lease that it got since would be given to another worker; and the
acknowledgement of a later command would count for those that were dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from threading import Condition, Lock

from streams.errors import DecodeError
from streams.link.connections import Connections
from streams.link.grant import Grant
from streams.link.inboxes import Inboxes
from streams.link.peer import Peer, Waiting
from streams.link.requests import Request
from streams.link.roster import Roster
from streams.link.terms import Terms
from streams.runtime.link import Workers
from streams.runtime.processor import Record
from streams.serde.link import frames
from streams.serde.link.frames import MAX_COMMAND_BYTES, encoded
from streams.serde.link.messages import (
    Acked,
    Beat,
    FromOwner,
    FromWorker,
    Hello,
    Order,
    Owned,
    Refused,
)

_MOST_TAKEN = 2_000
"""How many commands one step gets, so that heartbeats do not wait behind a long one."""


class Owner:
    """Every connection of one process that owns partitions."""

    def __init__(self, workers: Workers, terms: Terms, monotonic: Callable[[], float]) -> None:
        self.terms = terms
        self._monotonic = monotonic
        self.stirred = False
        self._ticked_at = self._heard_until = float("-inf")
        self._lock = self._news = Condition(Lock())
        self._inboxes = Inboxes()
        self._roster = Roster(workers)
        self._connections = Connections(terms, monotonic, self._roster.connected, self._roster.gone)
        self._owned: frozenset[int] = frozenset()

    # The server's thread.

    def opened(self, grant: Grant, ready: Callable[[], object]) -> Peer:
        """Begin a connection with the rights of its token.

        `ready` is called, in any thread, when the server has something to do for it: it must only
        wake the server.
        """
        with self._lock:
            return self._connections.open(grant, ready)

    def received(self, peer: Peer, frame: bytes | str) -> list[Request]:
        """Read a frame; the requests in it are the server's to answer."""
        try:
            messages = frames.from_worker(frame)
        except DecodeError as error:
            self.refuse(peer, Refused("malformed", f"a frame cannot be read: {error}"))
            return []
        requests: list[Request] = []
        now = self._monotonic()
        with self._lock:
            for message in messages:
                if not peer.ended:
                    requests += self._read(peer, message, now)
            if self.waiting:
                self._news.notify()
        return requests

    def outgoing(self, peer: Peer) -> bytes:
        """Take the next frame to send; it is empty if there is none."""
        with self._lock:
            peer.read_at = self._monotonic()
            return peer.outgoing.take()

    def say(self, peer: Peer, message: FromOwner) -> None:
        """Send a message behind those that wait."""
        with self._lock:
            self._connections.send(peer, message)

    def refuse(self, peer: Peer, refused: Refused) -> None:
        """End a connection, and say why."""
        with self._lock:
            self._connections.refuse(peer, refused)

    def closed(self, peer: Peer) -> None:
        """Forget a connection that is gone. Its commands are processed all the same."""
        with self._lock:
            self._connections.close(peer)

    def check(self) -> None:
        """Cut the connections of silent and slow workers. What came before this was received."""
        now = self._monotonic()
        with self._lock:
            self._ticked_at = now
            self._connections.check(now)

    # The stage's thread.

    @property
    def connected(self) -> bool:
        """Whether any worker is connected."""
        return len(self._connections) > 0

    @property
    def waiting(self) -> bool:
        """Whether there are commands to take, or news for the roster."""
        return bool(self._inboxes) or bool(self._roster)

    def wait(self, seconds: float) -> None:
        with self._news:
            if not self.waiting:
                self._news.wait(seconds)

    def take(self, now: int, /) -> list[Record]:
        with self._lock:
            self._roster.collect()
            taken = self._inboxes.take(_MOST_TAKEN, now)
            if not self._inboxes:
                self._heard_until = self._ticked_at
        self.stirred = self._roster.tell()
        return taken

    def caught_up_to(self, moment: float) -> bool:
        return self._heard_until > moment

    def committed(self, records: Sequence[Record], outputs: Sequence[Record]) -> None:
        acked: dict[Peer, dict[int, int]] = defaultdict(dict)
        with self._lock:
            for record in records:
                done = self._inboxes.committed(record)
                if done is not None:
                    acked[done.peer][done.partition] = done.number
            for output in outputs:
                peer = self._roster.known((output.key or b"").decode())
                if peer is not None:
                    self._connections.send(peer, output.value or b"")
            for peer, numbers in acked.items():
                self._connections.send(peer, Acked(numbers))

    def again(self) -> None:
        with self._lock:
            self._inboxes.again()

    def owned(self, partitions: Collection[int]) -> None:
        new = frozenset(partitions)
        with self._lock:
            begun, ended = new - self._owned, self._owned - new
            if not begun and not ended:
                return
            self._owned = new
            self._inboxes.drop(ended)
            for peer in self._connections:
                peer.lost |= ended
                if begun.isdisjoint(peer.lost):
                    self._connections.send(peer, Owned(tuple(sorted(new))))
                else:
                    self._connections.end(peer)

    def close(self) -> None:
        with self._lock:
            self._connections.end_all()
            self._roster.collect()
        self._roster.tell()

    # The rest is called under the lock.

    def _read(self, peer: Peer, message: FromWorker, now: float) -> list[Request]:
        match message:
            case Hello():
                self._greet(peer, message)
            case _ if peer.hello is None:
                self._malformed(peer, "the first message is a hello")
            case Beat():
                peer.heard_at = now
                self._roster.heard(peer, message, now)
            case Order():
                self._order(peer, message)
            case _:
                return [message]
        return []

    def _greet(self, peer: Peer, hello: Hello) -> None:
        earlier = self._connections.greet(peer, hello, self._owned)
        if earlier is not None:
            self._inboxes.forget(earlier)

    def _order(self, peer: Peer, order: Order) -> None:
        if not 0 <= order.partition < self.terms.partitions:
            self._malformed(peer, f"there is no partition {order.partition}")
        elif len(value := encoded(order)) > MAX_COMMAND_BYTES:
            self._malformed(peer, f"a command has {len(value):,} bytes")
        elif order.partition in self._owned:
            self._inboxes.add(Waiting(peer, order.partition, order.number, value))
        else:
            peer.lost.add(order.partition)

    def _malformed(self, peer: Peer, why: str) -> None:
        self._connections.refuse(peer, Refused("malformed", why))
