"""The open connections to owners, and what each owner has said of itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from streams.serde.link.messages import Welcome
from streams.worker.link.beats import Beats
from streams.worker.link.contract import Connection


@dataclass(slots=True, eq=False)
class Peer:
    """An owner that has welcomed this worker."""

    connection: Connection
    welcome: Welcome
    beats: Beats


class Peers:
    """The owners by connection. It is not thread-safe."""

    def __init__(self) -> None:
        self._open: dict[Connection, Peer | None] = {}
        self._beats = count(1)

    def __iter__(self) -> Iterator[Peer]:
        return (peer for peer in self._open.values() if peer is not None)

    def open(self, connection: Connection) -> None:
        """A connection is open; its owner has said nothing yet."""
        self._open[connection] = None

    def knows(self, connection: Connection) -> bool:
        """Whether a connection is open."""
        return connection in self._open

    def welcomed(self, connection: Connection, welcome: Welcome) -> Peer:
        """An owner takes the worker."""
        beats = Beats(welcome.heartbeat_seconds, welcome.term_seconds, self._beats)
        peer = self._open[connection] = Peer(connection, welcome, beats)
        return peer

    def of(self, connection: Connection) -> Peer | None:
        """The owner at the other end of a connection; None until it has welcomed the worker."""
        return self._open.get(connection)

    def close(self, connection: Connection) -> Peer | None:
        """A connection is gone. Returns the owner that it led to."""
        return self._open.pop(connection, None)

    def any(self) -> Connection | None:
        """A connection to any owner."""
        return next((peer.connection for peer in self), None)
