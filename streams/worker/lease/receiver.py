"""Takes, declines or refuses every record of the work partition at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import structlog

from streams.errors import PoisonRecord
from streams.serde.lease_mac import open_lease
from streams.serde.records import Declined, Lease
from streams.worker import metrics
from streams.worker.lease.heartbeater import Heartbeater
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.lease.refusal import refuse
from streams.worker.transport.contract import Incoming
from streams.worker.transport.retrying_sender import RetryingSender, command

log = structlog.get_logger(__name__)

Reason = Literal["full", "not_mine", "unknown_type", "bad_lease", "draining"]


class LeaseReceiver:
    """Judges leases in the reader's thread: a blocked event loop delays no answer."""

    def __init__(
        self,
        cluster_keys: tuple[bytes, ...],
        partitions: int,
        held_leases: HeldLeases,
        heartbeater: Heartbeater,
        sender: RetryingSender,
        start: Callable[[Held], None],
        clock: Callable[[], float],
    ) -> None:
        self._keys = cluster_keys
        self._partitions = partitions
        self._held_leases = held_leases
        self._heartbeater = heartbeater
        self._sender = sender
        self._start = start
        self._clock = clock
        self._types = {handler.type for handler in heartbeater.identity.handlers}

    def receive(self, record: Incoming) -> None:
        """Take, decline or refuse one record."""
        try:
            lease = open_lease(record.value, *self._keys)
        except PoisonRecord as error:
            refuse(record, error, self._partitions, self._sender)
            return
        if lease.worker_id == self._heartbeater.identity.worker_id and not self._held_leases.read(
            lease
        ):
            return
        objection = self._objection(lease)
        if objection:
            self._decline(lease, *objection)
            return
        if self._take(lease):
            metrics.LEASES.labels("taken").inc()
            self._heartbeater.tell()
        else:
            self._decline(lease, "full", "no slot is offered now")

    def _take(self, lease: Lease) -> bool:
        """Take a lease under the lock, so that every taken lease has begun when slots close."""
        with self._held_leases.lock:
            basis = self._heartbeater.sent_at(lease.heartbeat_id)
            held = None if basis is None else self._held_leases.take(lease, basis)
            if held is not None:
                self._start(held)
            return held is not None

    def _objection(self, lease: Lease) -> tuple[Reason, str] | None:
        if lease.worker_id != self._heartbeater.identity.worker_id:
            return "not_mine", f"the lease is of {lease.worker_id}"
        if lease.type not in self._types:
            known = ", ".join(sorted(self._types)) or "none"
            return "unknown_type", f"no handler for job type {lease.type!r}; known here: {known}"
        if self._held_leases.draining:
            return "draining", "the worker is shutting down"
        sent_at = self._heartbeater.sent_at(lease.heartbeat_id)
        if sent_at is None or self._clock() >= sent_at + self._held_leases.usable(lease):
            return "bad_lease", f"answers heartbeat {lease.heartbeat_id}: unknown here or too old"
        return None

    def _decline(self, lease: Lease, reason: Reason, detail: str) -> None:
        metrics.LEASES.labels(reason).inc()
        log.info("lease declined", job_id=lease.job_id, type=lease.type, reason=reason)
        home, now = lease.home_partition, self._clock()
        # After the lease's term the dispatcher takes it back by itself.
        until = now + lease.term_seconds
        with self._held_leases.lock:
            # The dispatcher does not take a `not_mine` as this worker's announcement.
            say = self._held_leases.word if reason == "not_mine" else self._held_leases.tell
            free, received = say(home)
            body = Declined(self._heartbeater.identity.worker_id, reason, free, detail, received)
            self._sender.post(
                command(lease, body), lambda: until, lambda error: self._heartbeater.said(home, now)
            )
        self._heartbeater.tell()
