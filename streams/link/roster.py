"""Passes on to the stage which workers are connected, in the stage's own thread."""

from __future__ import annotations

from streams.link.peer import Peer
from streams.runtime.link import Workers
from streams.serde.link.messages import Beat


class Roster:
    """What the stage's `Workers` is to be told. Of several beats it is told the newest.

    The owner's lock guards it, but for `tell`: that calls the stage, and needs no lock.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._changes: list[tuple[Peer, bool]] = []
        self._beats: dict[Peer, tuple[Beat, float]] = {}
        self._known: dict[str, Peer] = {}
        self._to_tell: tuple[list[tuple[Peer, bool]], dict[Peer, tuple[Beat, float]]] = ([], {})

    def __bool__(self) -> bool:
        """Whether there is something to collect."""
        return bool(self._changes or self._beats)

    def connected(self, peer: Peer) -> None:
        """A worker is connected."""
        self._changes.append((peer, True))

    def gone(self, peer: Peer) -> None:
        """Its connection has ended."""
        self._changes.append((peer, False))

    def heard(self, peer: Peer, beat: Beat, now: float) -> None:
        """A beat of a connected worker was read."""
        self._beats[peer] = beat, now

    def known(self, worker_id: str) -> Peer | None:
        """The connection of a worker that the stage knows: what it decided is for this one."""
        return self._known.get(worker_id)

    def collect(self) -> None:
        """Set apart what `tell` tells."""
        self._to_tell, self._changes, self._beats = (self._changes, self._beats), [], {}

    def tell(self) -> bool:
        """Tell the stage, in its thread, what was collected; return whether that is anything."""
        changes, beats = self._to_tell
        for peer, here in changes:
            self._change(peer, here)
        for peer, (beat, now) in beats.items():
            if self._known.get(peer.worker_id) is peer:
                who = peer.worker_id
                self._workers.heard(who, beat.number, beat.limit, beat.draining, now)
        return bool(changes or beats)

    def _change(self, peer: Peer, here: bool) -> None:
        who, hello = peer.worker_id, peer.hello
        if here and hello is not None:
            self._known[who] = peer
            self._workers.connected(who, hello.pool, hello.handlers, peer.grant.rights)
        elif self._known.get(who) is peer:
            del self._known[who]
            self._workers.gone(who)
