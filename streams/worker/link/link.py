"""The worker's end of the link: commands, requests, beats and leases, over any connections.

It knows no sockets and no threads of its own. The lock is that of the leases, so that beats, leases
and commands leave in the order in which they are true.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from streams.errors import DecodeError
from streams.serde.link import frames
from streams.serde.link.messages import (
    VERSION,
    Acked,
    Answer,
    Done,
    Failed,
    FromOwner,
    Hello,
    Leased,
    Owned,
    Piece,
    Refused,
    Wanted,
    Welcome,
)
from streams.serde.records import Command
from streams.worker.lease.held_leases import HeldLeases
from streams.worker.link.beating import Beating
from streams.worker.link.commands import Commands
from streams.worker.link.contract import Acknowledged, Connection, Deadline, Inbox
from streams.worker.link.identity import Identity
from streams.worker.link.owners import Owners
from streams.worker.link.peers import Peer, Peers
from streams.worker.link.readiness import Readiness
from streams.worker.link.requests import Answered, Question, Requests
from streams.worker.link.succession import Succession
from streams.worker.link.taking import Taking

log = structlog.get_logger(__name__)


class Link:
    """Every connection of one worker. Threads may call all of it.

    A command is sent in the order of `post` to the owner of its partition, and again to each that
    comes after it, until it is acknowledged or its deadline is over.
    """

    def __init__(
        self,
        identity: Identity,
        held_leases: HeldLeases,
        inbox: Inbox,
        clock: Callable[[], float],
    ) -> None:
        self.identity = identity
        self.worker_id = ""
        """How owners call this worker, once one has welcomed it."""
        self.readiness = Readiness(clock)
        self._held_leases = held_leases
        self._lock = held_leases.lock
        self._inbox = inbox
        self._clock = clock
        self._peers = Peers()
        self._owners = Owners()
        self._commands = Commands(self._owners, clock)
        self._requests = Requests(self._owner, clock)
        types = frozenset(handler.type for handler in identity.handlers)
        self._taking = Taking(held_leases, self._owners, types, inbox.leased, self._commands, clock)
        self._beating = Beating(held_leases, self._owners, self.readiness, clock, self._commands)
        whom = self._owners, self._peers, held_leases
        self._succession = Succession(
            *whom, self._commands, self._requests, self._beating, self.readiness
        )
        self.welcomed: Callable[[Welcome], None] = lambda _: None
        """Called under the lock when an owner takes this worker."""

    # What a connection tells, and who makes connections.

    def dials(self, places: int) -> None:
        """So many places are dialed now; each may lead to an owner."""
        with self._lock:
            self._held_leases.credits.dialed = places

    def opened(self, connection: Connection) -> None:
        """A connection is open: say who this is."""
        who, slots = self.identity, self._held_leases.slots
        hello = Hello(VERSION, who.name, who.boot, who.pool, slots, who.handlers)
        with self._lock:
            self._peers.open(connection)
            connection.send(frames.encoded(hello))

    def received(self, connection: Connection, frame: bytes | str) -> None:
        """A frame has come; one that cannot be read ends its connection."""
        try:
            messages = frames.from_owner(frame)
        except DecodeError as error:
            log.error(
                "the owner sends what cannot be read", owner=connection.name, error=str(error)
            )
            connection.close("a frame cannot be read")
            return
        with self._lock:
            for message in messages:
                if self._peers.knows(connection):
                    self._read(connection, message)

    def closed(self, connection: Connection, why: str) -> None:
        """A connection is gone; this ends no lease."""
        with self._lock:
            peer = self._peers.close(connection)
            if peer is not None:
                self._held_leases.credits.close(connection)
                self._held_leases.assigned = any(self._peers)
            self.readiness.lost(connection.name, why)
            self._succession.announced(connection, ())
            self.tell()

    def unreached(self, name: str, why: str) -> None:
        """An owner cannot be reached now."""
        with self._lock:
            self.readiness.lost(name, why)

    # What the worker says.

    def post(
        self,
        partition: int,
        command: Command,
        until: Deadline,
        done: Acknowledged | None = None,
        *,
        once: bool = False,
    ) -> None:
        """Send a command; `done` gets LeaseLost if its deadline passes first.

        With `once` it is for the present owner alone.
        """
        with self._lock:
            self._commands.post(partition, command, until, done, once=once)

    def ask(self, question: Question, answered: Answered) -> None:
        """Make a request; `answered` gets the result, or why there is none."""
        with self._lock:
            self._requests.ask(question, answered)

    def tell(self) -> None:
        """Send a beat to each owner whose share of the slots differs from what it was told."""
        with self._lock:
            for connection in self._held_leases.owed():
                peer = self._peers.of(connection)
                if peer is not None:
                    self._beating.beat(peer)

    def beat(self) -> None:
        """Send a beat to every owner at once, and to each partition with leases a heartbeat."""
        with self._lock:
            for peer in self._peers:
                self._beating.beat(peer)
                self._beating.keep_leases(peer)

    def tick(self) -> None:
        """Do what is due; to be called several times a second."""
        with self._lock:
            self.give_up()
            self._requests.look()
            self._held_leases.credits.level()
            for peer in self._peers:
                if peer.beats.is_due(self._clock()):
                    self._beating.beat(peer)
                    self._beating.keep_leases(peer)
            self.tell()

    def give_up(self) -> None:
        """Let go of commands and requests whose deadlines are over."""
        with self._lock:
            self._commands.give_up()
            for answered, error in self._requests.take_late():
                answered(error)

    def hear_out(self, told: Callable[[None], None]) -> None:
        """Call `told` once all has come that owners sent before they read the last beat."""
        with self._lock:
            self._beating.hear_out(told)

    def when_empty(self, told: Callable[[None], None]) -> None:
        """Call `told` once every command is acknowledged or too late."""
        with self._lock:
            self._commands.when_empty(told)

    def keep(self, partition: int) -> None:
        """Send a partition a heartbeat at once: what it lists has changed."""
        with self._lock:
            if self._owners.of(partition) is not None:
                self._beating.introduce(partition)

    # The rest is called under the lock.

    def _read(self, connection: Connection, message: FromOwner) -> None:
        match message:
            case Welcome():
                self._welcome(connection, message)
            case Refused():
                self.readiness.refused(connection.name, message, self._inbox.failed)
                connection.close(f"refused: {message.message}")
            case _:
                peer = self._peers.of(connection)
                if peer is not None:
                    self._hear(peer, message)

    def _hear(self, peer: Peer, message: FromOwner) -> None:
        """What an owner says that has welcomed this worker."""
        match message:
            case Owned(partitions=partitions):
                self._succession.announced(peer.connection, partitions)
            case Leased():
                self._taking.take(peer, message)
                self.tell()
            case Answer(number=0, reply=reply):
                self._inbox.replied(reply)
            case Answer(partition=partition, number=number, reply=reply):
                self._commands.refused(partition, number, reply.message)
            case Acked(numbers=numbers):
                self._commands.acknowledged(numbers)
            case Wanted():
                self._held_leases.credits.want(peer.connection)
                self.tell()
            case Piece() | Done() | Failed():
                found = self._requests.read(peer.connection, message)
                if found is not None:
                    answered, result = found
                    answered(result)

    def _welcome(self, connection: Connection, welcome: Welcome) -> None:
        if self._peers.of(connection) is not None:
            return
        log.info("an owner takes this worker", owner=welcome.owner, worker_id=welcome.worker_id)
        self.worker_id = welcome.worker_id
        peer = self._peers.welcomed(connection, welcome)
        self.readiness.welcomed(connection.name)
        self._held_leases.margin = welcome.margin_seconds
        self._held_leases.assigned = True
        self._held_leases.credits.open(connection)
        peer.beats.is_due(self._clock())
        self._beating.beat(peer)
        self._succession.announced(connection, welcome.owned)
        self.welcomed(welcome)
        self._requests.look()
        self.tell()

    def _owner(self, partition: int | None) -> Connection | None:
        return self._peers.any() if partition is None else self._owners.of(partition)
