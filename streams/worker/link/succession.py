"""Sends the new owner of a partition what the one before it has not acknowledged."""

from __future__ import annotations

from collections.abc import Collection

from streams.worker.lease.held_leases import HeldLeases
from streams.worker.link.beating import Beating
from streams.worker.link.commands import Commands
from streams.worker.link.contract import Connection
from streams.worker.link.owners import Owners
from streams.worker.link.peers import Peers
from streams.worker.link.readiness import Readiness
from streams.worker.link.requests import Requests


class Succession:
    """Follows the owners of partitions. It is called under the lock of the leases."""

    def __init__(
        self,
        owners: Owners,
        peers: Peers,
        held_leases: HeldLeases,
        commands: Commands,
        requests: Requests,
        beating: Beating,
        readiness: Readiness,
    ) -> None:
        self._owners = owners
        self._peers = peers
        self._held_leases = held_leases
        self._commands = commands
        self._requests = requests
        self._beating = beating
        self._readiness = readiness

    def announced(self, connection: Connection, partitions: Collection[int]) -> None:
        """An owner has named all partitions that it has; there are none if its connection is gone.

        Who owns a partition now is first sent an introduction.
        """
        for partition in self._owners.announce(connection, partitions):
            owner = self._owners.of(partition)
            peer = None if owner is None else self._peers.of(owner)
            self._readiness.forget(partition)
            if owner is not None and peer is not None:
                self._held_leases.follow_term(partition, peer.welcome.term_seconds)
                again = self._commands.take(partition)
                self._beating.introduce(partition)
                self._commands.put(again)
                self._requests.anew(owner, partition)
        self._requests.look()
