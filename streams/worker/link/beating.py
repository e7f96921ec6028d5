"""Sends beats, which say how many leases an owner may send, and heartbeats, which keep leases."""

from __future__ import annotations

from collections.abc import Callable

from streams.serde.link.frames import encoded
from streams.serde.link.messages import Beat
from streams.serde.records import Command, Heartbeat
from streams.worker.lease.held_leases import HeldLeases, as_listed
from streams.worker.link.commands import Commands
from streams.worker.link.owners import Owners
from streams.worker.link.peers import Peer
from streams.worker.link.readiness import Readiness

_WORTH_SECONDS = 30.0
"""How long a heartbeat may wait for its acknowledgement: newer ones follow it."""


class Beating:
    """The signs of life of one worker. It is called under the lock of the leases."""

    def __init__(
        self,
        held_leases: HeldLeases,
        owners: Owners,
        readiness: Readiness,
        clock: Callable[[], float],
        commands: Commands,
    ) -> None:
        self._held_leases = held_leases
        self._owners = owners
        self._readiness = readiness
        self._clock = clock
        self._commands = commands

    def beat(self, peer: Peer) -> None:
        """Tell an owner how many leases it may send over its connection in all."""
        limit = sum(self._held_leases.tell(peer.connection))
        number = peer.beats.sent(self._clock())
        peer.connection.send(encoded(Beat(number, limit, self._held_leases.draining)))

    def keep_leases(self, peer: Peer) -> None:
        """Send a heartbeat to each partition of an owner that has leases of this worker."""
        for partition in sorted(self._held_leases.homes()):
            if self._owners.of(partition) is peer.connection:
                self.introduce(partition)

    def hear_out(self, told: Callable[[None], None]) -> None:
        """Call `told` once each owner has answered a heartbeat that is sent now, or is gone.

        What an owner had sent before it read the worker's last beat has come by then.
        """
        asked = set(self._owners.partitions())

        def answered(partition: int) -> None:
            if partition in asked:
                asked.remove(partition)
                if not asked:
                    told(None)

        if not asked:
            told(None)
        for partition in sorted(asked):
            self.introduce(partition, answered)

    def introduce(
        self, partition: int, answered: Callable[[int], None] = lambda partition: None
    ) -> None:
        """Send the heartbeat of a partition, which renews its leases once it is acknowledged."""
        leases, now = self._held_leases.listed(partition), self._clock()
        told = as_listed(leases)
        self._readiness.asked(partition)

        def done(error: Exception | None) -> None:
            if error is None:
                self._readiness.heard(partition)
                self._held_leases.renew(leases, now, told)
            answered(partition)

        command = Command("", "", "", 0, 0, Heartbeat(told))
        self._commands.post(partition, command, lambda: now + _WORTH_SECONDS, done, once=True)
