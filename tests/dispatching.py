"""A dispatcher in memory with scripted workers; the test reads what it sends them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from streams import dispatcher, scheduler
from streams.dispatcher.processor import Dispatcher
from streams.runtime.driver import TopologyTestDriver
from streams.serde.codec import COMMAND, DEAD_LETTER, ENVELOPE, JOB, LEDGER_ENTRY, REPLY
from streams.serde.ids import event_job_id, fingerprint, new_id
from streams.serde.lease_mac import open_lease
from streams.serde.records import (
    Cancel,
    Checkpoint,
    Claim,
    Command,
    CommandBody,
    DeadLetter,
    Declined,
    Ended,
    Envelope,
    Handler,
    Heartbeat,
    HeldLease,
    Job,
    Lease,
    LedgerEntry,
    Outcome,
    PayloadRef,
    Replay,
    Reply,
    Submit,
)
from streams.topology.load import load
from streams.topology.model import Limit, Route, Topology

CLUSTER_KEY = b"k" * 32
DIGEST = b"d" * 32
QUESTIONS = ("who", "wanted")
ROUTES = (
    Route("zendesk", "ticket.refund", "refund", "webhook"),
    Route("zendesk", "ticket.*", "draft_reply", "webhook"),
)


def topology(*limits: Limit) -> Topology:
    return dataclasses.replace(load(), routes=ROUTES, limits=limits)


class Desk:
    """One partition's dispatcher and scheduler, on a virtual clock."""

    def __init__(self, *limits: Limit) -> None:
        self.topology = topology(*limits)
        stages = [dispatcher.stage(self.topology, CLUSTER_KEY), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, partitions=1)
        self.driver.advance(0.2)  # what lay in the log is heard out before anything is leased

    @property
    def dispatcher(self) -> Dispatcher:
        """The processor itself."""
        task = self.driver._runs["dispatcher"].tasks[0]
        return cast(Dispatcher, task._processor._processor)

    def deploy(self, **changes: Any) -> None:
        """The dispatcher starts anew with another topology; its disk stays."""
        self.topology = dataclasses.replace(self.topology, **changes)
        self.driver._broker._topology = self.topology
        self.driver._runs["dispatcher"].stage = dispatcher.stage(self.topology, CLUSTER_KEY)
        self.driver.restart("dispatcher", keep_state=True)
        self.driver.advance(0.2)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """What is sent meanwhile comes to the dispatcher in one batch."""
        flow, self.driver._flow = self.driver._flow, lambda: None  # type: ignore[method-assign]
        yield
        self.driver._flow = flow  # type: ignore[method-assign]
        self.driver._flow()

    def event(
        self, key: str, tenant: str = "acme", *, type_: str = "ticket.created", at: int = 0
    ) -> str:
        """An event of `events`; returns the id of the job it should have."""
        value = ENVELOPE.encode(envelope(tenant, key, type_))
        self.driver.pipe("events", tenant.encode(), value, timestamp=at or None)
        return event_job_id(tenant, "zendesk", key)

    def command(self, body: CommandBody, job_id: str = "", epoch: int = 0) -> str:
        """A command of `jobs.commands`; returns its id."""
        command = Command(new_id("cmd"), "acme", job_id, epoch, self.driver.now, body)
        self.driver.pipe("jobs.commands", b"acme", COMMAND.encode(command))
        return command.command_id

    def submit(self, job_id: str, type_: str = "draft_reply", **fields: Any) -> None:
        body = Submit(type_, "{}", None, None, None, None, None, "ops", b"hash", None)
        self.command(dataclasses.replace(body, **fields), job_id)

    def cancel(self, job_id: str) -> None:
        self.command(Cancel("not needed", "ops"), job_id)

    def replay(self, job_id: str, of: str, *, fresh_scope: bool = False) -> None:
        self.command(Replay(of, "vendor mended", fresh_scope, "ops"), job_id)

    def job(self, job_id: str) -> Job:
        """The newest record of a job on `jobs`."""
        records = [r for r in self.driver.output("jobs") if r.key == job_id.encode()]
        return JOB.decode(records[-1].value)

    def leases(self) -> list[Lease]:
        work = self.driver.output("jobs.work.default")
        return [open_lease(record.value, CLUSTER_KEY) for record in work]

    def lease(self, job_id: str) -> Lease:
        """The newest lease of a job."""
        return [lease for lease in self.leases() if lease.job_id == job_id][-1]

    def replies(self) -> list[Reply]:
        """What was said to runs, in order of partitions."""
        return [reply for _, reply in self.all_replies() if reply.kind not in QUESTIONS]

    def questions(self, kind: str) -> list[tuple[int, str]]:
        """What was asked of workers: partition, and worker or nothing for everybody."""
        return [(to, r.worker_id) for to, r in self.all_replies() if r.kind == kind]

    def all_replies(self) -> list[tuple[int, Reply]]:
        """With the partition each went to."""
        records = self.driver.output("jobs.replies")
        return [(record.partition, REPLY.decode(record.value)) for record in records]

    def dead_letters(self) -> list[DeadLetter]:
        return [DEAD_LETTER.decode(record.value) for record in self.driver.output("dlq")]

    def ledger(self) -> list[LedgerEntry]:
        """Every entry written, in order."""
        return [LEDGER_ENTRY.decode(r.value) for r in self.driver.output("ledger") if r.value]


class ScriptedWorker:
    """Says what a worker says, when the test wants it said."""

    def __init__(
        self, desk: Desk, name: str = "w1/b1", *, slots: int = 10, types: tuple[str, ...] = (),
        attempts: int = 3, backoff: tuple[float, ...] = (10, 30), partition: int = 3,
    ) -> None:  # fmt: skip
        self.desk = desk
        self.name = name
        self.slots = slots
        self.partition = partition
        names = types or ("draft_reply", "refund")
        self.handlers = tuple(Handler(name, attempts, backoff, 300) for name in names)

    @property
    def received(self) -> int:
        """It has read every lease that was sent to it."""
        return sum(lease.worker_id == self.name for lease in self.desk.leases())

    def heartbeat(self, *holding: Lease, free: int | None = None, lean: bool = False) -> str:
        held = tuple(HeldLease(lease.job_id, lease.epoch) for lease in holding)
        free = self.slots if free is None else free
        return self.desk.command(
            Heartbeat(
                self.name, "default", self.partition, free, held, () if lean else self.handlers,
                received=self.received, lean=lean,
            )
        )  # fmt: skip

    def claim(
        self, lease: Lease, action: str = "email:send/reply", *, claim_id: str = "",
        digest: bytes = DIGEST, lifetime_ms: int = 0,
    ) -> Reply:  # fmt: skip
        """Ask, and return the answer."""
        body = Claim(
            self.name, self.partition, claim_id or new_id("clm"), lease.run_id, action, digest,
            lifetime_ms,
        )  # fmt: skip
        self.desk.command(body, lease.job_id, lease.epoch)
        return self.desk.replies()[-1]

    def outcome(self, lease: Lease, reply: Reply, status: Any, result: str | None = None) -> None:
        action = "email:send/reply"
        body = Outcome(reply.claim_id, lease.run_id, action, status, result, None)
        self.desk.command(body, lease.job_id, lease.epoch)

    def step(self, lease: Lease, name: str, value: str) -> None:
        self.desk.command(Checkpoint(lease.run_id, name, value), lease.job_id, lease.epoch)

    def end(
        self, lease: Lease, status: Any, *, free: int = 10, result: str | None = None,
        error: str | None = None, after: float | None = None,
    ) -> None:  # fmt: skip
        body = Ended(
            self.name, lease.run_id, free, status, result, error, after, received=self.received
        )
        self.desk.command(body, lease.job_id, lease.epoch)

    def decline(self, lease: Lease, reason: Any) -> None:
        body = Declined(self.name, reason, 0, "no", received=self.received)
        self.desk.command(body, lease.job_id, lease.epoch)


def envelope(tenant: str, key: str, type_: str) -> Envelope:
    return Envelope(
        fingerprint=fingerprint(tenant, "zendesk", key),
        event_id=new_id("evt"),
        source="zendesk",
        tenant_id=tenant,
        event_type=type_,
        occurred_at=None,
        received_at=1,
        payload_hash=b"h" * 32,
        dedup_key=key,
        subject=key,
        content_type="application/json",
        delivery_id=None,
        request_id=None,
        payload_ref=PayloadRef(0, (7,), 10, "kek"),
        attributes={"subject": key},
        priority="webhook",
        callback_url=f"https://{tenant}.example/done",
    )
