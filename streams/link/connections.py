"""The open connections of an owner, and which one is each worker's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from weakref import WeakValueDictionary

import structlog

from streams.link import metrics
from streams.link.grant import Grant
from streams.link.greeting import name_of, refusal, welcome, worker_id
from streams.link.peer import Peer
from streams.link.terms import Terms
from streams.serde.link.frames import encoded
from streams.serde.link.messages import FromOwner, Hello, Refused

log = structlog.get_logger(__name__)

_LONGEST_REASON = 500
"""The characters of a refusal, which may quote what a worker sent."""
_UNREAD_SECONDS = 10.0
"""A worker that has much to read may read nothing for so long."""
_TOO_SLOW = Refused("too_slow", "the worker does not read what it is sent: its leases run out")
_REPLACED = Refused(
    "replaced", "a later process of the same name is connected: give each its own TIDEGATE_INSTANCE"
)


class Connections:
    """Begins, greets and ends connections. The owner's lock guards it.

    `entered` and `gone` are called when a worker that said hello is connected, and no longer.
    """

    def __init__(
        self,
        terms: Terms,
        monotonic: Callable[[], float],
        entered: Callable[[Peer], None],
        gone: Callable[[Peer], None],
    ) -> None:
        self._terms = terms
        self._monotonic = monotonic
        self._entered = entered
        self._gone = gone
        self._open: set[Peer] = set()
        self._connected: dict[str, Peer] = {}  # by name
        self._latest: WeakValueDictionary[str, Peer] = WeakValueDictionary()  # by worker's id

    def __len__(self) -> int:
        """How many workers are connected."""
        return len(self._connected)

    def __iter__(self) -> Iterator[Peer]:
        """The connected workers, also if some of them end meanwhile."""
        return iter(list(self._connected.values()))

    def open(self, grant: Grant, ready: Callable[[], object]) -> Peer:
        """Begin a connection with the rights of its token."""
        peer = Peer(grant, ready, self._monotonic())
        self._open.add(peer)
        return peer

    def close(self, peer: Peer) -> None:
        """Forget a connection that is gone."""
        self.end(peer)
        self._open.discard(peer)
        peer.detach()

    def end_all(self) -> None:
        """End every connection."""
        for peer in list(self._open):
            self.end(peer)

    def check(self, now: float) -> None:
        """End those whose workers are silent or slow; one that is not read may be silent."""
        for peer in list(self._open):
            if peer.full:
                peer.heard_at = now
            elif peer.heard_at < now - self._terms.silence_seconds and not peer.ended:
                log.info("a connection without a beat is cut", worker=peer.worker_id)
                self.end(peer)
            if peer.outgoing.full and peer.read_at < now - _UNREAD_SECONDS:
                self.refuse(peer, _TOO_SLOW)

    def greet(self, peer: Peer, hello: Hello, owned: Collection[int]) -> Peer | None:
        """Welcome a worker or refuse it; return its earlier connection, if there was one."""
        refused = refusal(hello, peer.grant, self._terms)
        if peer.hello is not None:
            refused = Refused("malformed", "a connection has one hello")
        if refused is not None:
            self.refuse(peer, refused)
            return None
        if hello.check:
            peer.say(welcome(worker_id(hello, peer.grant), self._terms, owned))
            self.end(peer)
            return None
        peer.hello, peer.name = hello, name_of(hello, peer.grant)
        peer.worker_id = worker_id(hello, peer.grant)
        if not self._make_place(peer.name, hello.boot):
            self.refuse(peer, _REPLACED)
            return None
        return self._enter(peer, owned)

    def send(self, peer: Peer, message: FromOwner | bytes) -> None:
        """Send a message behind those that wait; a worker that does not read is refused."""
        if not peer.outgoing.size:
            peer.read_at = self._monotonic()
        peer.send(message if isinstance(message, bytes) else encoded(message))
        if peer.outgoing.overflows:
            self.refuse(peer, _TOO_SLOW)

    def refuse(self, peer: Peer, refused: Refused) -> None:
        """End a connection, and say why."""
        if peer.ended:
            return
        refused = Refused(refused.reason, refused.message[:_LONGEST_REASON])
        metrics.REFUSED.labels(refused.reason).inc()
        log.warning(
            "a worker's connection is refused",
            worker=peer.worker_id,
            token=peer.grant.name,
            reason=refused.reason,
            detail=refused.message,
        )
        peer.outgoing.clear()
        peer.say(refused)
        self.end(peer)

    def end(self, peer: Peer) -> None:
        """End a connection without a word."""
        if peer.ended:
            return
        peer.ended = True
        if self._connected.get(peer.name) is peer:
            del self._connected[peer.name]
            metrics.CONNECTED.set(len(self))
            self._gone(peer)
        peer.wake()

    def _make_place(self, name: str, boot: str) -> bool:
        """End an earlier connection of the same name; False if it is of a later boot."""
        other = self._connected.get(name)
        if other is None or other.hello is None:
            return True
        if other.hello.boot > boot:
            return False
        if other.hello.boot < boot:
            self.refuse(other, _REPLACED)
        self.end(other)
        return True

    def _enter(self, peer: Peer, owned: Collection[int]) -> Peer | None:
        earlier = self._latest.get(peer.worker_id)
        self._latest[peer.worker_id] = peer
        self._connected[peer.name] = peer
        metrics.CONNECTED.set(len(self))
        self._entered(peer)
        self.send(peer, welcome(peer.worker_id, self._terms, owned))
        return earlier
