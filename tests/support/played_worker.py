"""A worker's link to real owners of partitions; a test plays what its handlers would do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from uuid_utils import uuid7

from streams.process.boot_clock import boot_seconds
from streams.process.wall_clock import wall_ms
from streams.serde.ids import new_id
from streams.serde.records import (
    Claim,
    Command,
    CommandBody,
    Ended,
    Handler,
    Lease,
    Outcome,
    Reply,
)
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.addresses import addresses
from streams.worker.link.contract import Acknowledged
from streams.worker.link.dialer import Dialer
from streams.worker.link.identity import Identity
from streams.worker.link.link import Link
from support.conditions import eventually
from support.dispatching import DIGEST

TOKEN = "the-token-of-played-workers"
ACTION = "email:send/reply"


class PlayedWorker:
    """It keeps its leases alive, and says nothing else by itself. It is its link's `Inbox`."""

    def __init__(self, places: str, *types: str, slots: int = 4, name: str = "w1") -> None:
        self.held: dict[str, Held] = {}
        self.replies: list[Reply] = []
        self.failures: list[Exception] = []
        handlers = tuple(Handler(each, 3, (10.0,), 300.0) for each in types)
        self.held_leases = HeldLeases(slots, 5, boot_seconds)
        identity = Identity(name, str(uuid7()), "default", handlers)
        self.link = Link(identity, self.held_leases, self, boot_seconds)
        self._dialer = Dialer(addresses(tuple(places.split(","))), lambda: TOKEN, None)

    # What the link calls, in its thread.

    def leased(self, held: Held) -> None:
        self.held[held.lease.job_id] = held

    def replied(self, reply: Reply) -> None:
        self.replies.append(reply)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    # What the test does.

    def start(self) -> None:
        self._dialer.start(self.link, self.failed)

    def close(self) -> None:
        self._dialer.close()

    def lease(self, job_id: str) -> Lease:
        """The lease of a job, once it is there."""
        return eventually(lambda: self.held.get(job_id), what=f"a lease of {job_id}").lease

    def say(self, lease: Lease, body: CommandBody, done: Acknowledged | None = None) -> None:
        """Send a command about a run."""
        command = Command("", lease.tenant_id, lease.job_id, lease.epoch, wall_ms(), body)
        self.link.post(lease.home_partition, command, lambda: math.inf, done)

    def claim(self, lease: Lease, lifetime_ms: int = 0, action: str = ACTION) -> Reply:
        """Ask whether an effect may begin, and wait for the answer."""
        claim_id = new_id("clm")
        self.say(lease, Claim(claim_id, lease.run_id, action, DIGEST, lifetime_ms))

        def answers() -> list[Reply]:
            return [reply for reply in list(self.replies) if reply.claim_id == claim_id]

        return eventually(answers, what="an answer to the claim")[0]

    def unknown(self, lease: Lease, reply: Reply, error: str) -> None:
        """Tell that nobody knows what became of an effect."""
        self.say(lease, Outcome(reply.claim_id, lease.run_id, ACTION, "unknown", None, error))

    def end(self, lease: Lease) -> None:
        """End a run as succeeded, and free its slot."""
        held = self.held.pop(lease.job_id)
        self.held_leases.vacate(held)
        told = None, None, None, None, None, ()
        body = Ended(lease.run_id, "succeeded", *told)
        self.say(lease, body, lambda _: self.held_leases.drop(held))
        self.link.tell()


@contextmanager
def played_worker(places: str, *types: str, slots: int = 4) -> Iterator[PlayedWorker]:
    """A worker of the default pool for some job types."""
    worker = PlayedWorker(places, *types, slots=slots)
    worker.start()
    try:
        yield worker
        assert not worker.failures, worker.failures
    finally:
        worker.close()
