"""Takes or declines each lease at once, in a connection's thread: a blocked loop delays nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection

import structlog

from streams.serde.link.messages import Leased
from streams.serde.records import Command, Declined
from streams.worker import metrics
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.commands import Commands
from streams.worker.link.owners import Owners
from streams.worker.link.peers import Peer

log = structlog.get_logger(__name__)


class Taking:
    """Begins runs, and declines leases. It is called under the lock of the leases."""

    def __init__(
        self,
        held_leases: HeldLeases,
        owners: Owners,
        types: Collection[str],
        begin: Callable[[Held], None],
        commands: Commands,
        clock: Callable[[], float],
    ) -> None:
        self._held_leases = held_leases
        self._owners = owners
        self._types = types
        self._begin = begin
        self._commands = commands
        self._clock = clock

    def take(self, peer: Peer, leased: Leased) -> None:
        """Have a lease's run begin, or decline it; do neither with one that was read before."""
        if self._held_leases.read(leased.lease, peer.connection):
            why = self._taken(peer, leased)
            if why is not None:
                self._decline(leased, why)

    def _taken(self, peer: Peer, leased: Leased) -> str | None:
        """Have a run begin, or return why it does not."""
        lease, source = leased.lease, peer.connection
        if lease.type not in self._types:
            known = ", ".join(sorted(self._types)) or "none"
            return f"no handler for job type {lease.type!r}; known here: {known}"
        sent_at = peer.beats.sent_at(leased.beat)
        if self._owners.of(leased.partition) is not source:
            return "its partition has another owner by now"
        if sent_at is None or self._clock() >= sent_at + self._held_leases.usable(lease):
            return f"it answers beat {leased.beat}, which is unknown here or too old"
        held = self._held_leases.take(lease, sent_at, source)
        if held is None:
            return "the worker shuts down" if self._held_leases.draining else "no slot is free"
        metrics.LEASES.labels("taken").inc()
        self._begin(held)
        return None

    def _decline(self, leased: Leased, why: str) -> None:
        lease = leased.lease
        metrics.LEASES.labels("declined").inc()
        log.info("lease declined", job_id=lease.job_id, type=lease.type, why=why)
        until = self._clock() + lease.term_seconds
        whose = lease.tenant_id, lease.job_id, lease.epoch
        command = Command("", *whose, 0, Declined(why))
        self._commands.post(leased.partition, command, lambda: until)
