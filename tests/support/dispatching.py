"""A dispatcher in memory with scripted workers; the test reads what it sends them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from streams import dispatcher, scheduler
from streams.runtime.driver import TopologyTestDriver
from streams.serde.codec import (
    COMMAND,
    DEAD_LETTER,
    DUPLICATE,
    ENVELOPE,
    HELD,
    LEDGER_ENTRY,
    TENANT,
)
from streams.serde.ids import event_job_id, fingerprint, new_id
from streams.serde.keys import tenant_key
from streams.serde.records import (
    Call,
    Cancel,
    Checkpoint,
    Claim,
    ClaimStep,
    Command,
    CommandBody,
    DeadLetter,
    Declined,
    Duplicate,
    Ended,
    Envelope,
    Handler,
    Heartbeat,
    Held,
    HeldLease,
    Job,
    Lease,
    LedgerEntry,
    Move,
    Outcome,
    PayloadRef,
    Replay,
    Reply,
    StepFailed,
    Submit,
    TenantRecord,
    Wait,
)
from streams.tenants.pauses import Pause
from streams.topology.limits import Limit, MaxQueued
from streams.topology.load import load
from streams.topology.model import Route, Topology
from support import decoded
from support.step_results import left

CLUSTER_KEY = b"k" * 32
DIGEST = b"d" * 32
QUESTIONS = ("who", "wanted")
ROUTES = (
    Route("zendesk", "ticket.refund", "refund", "webhook"),
    Route("zendesk", "ticket.*", "draft_reply", "webhook"),
)


NEVER_FULL = (MaxQueued("tenant", 10**9), MaxQueued("job_type", 10**9), MaxQueued("global", 10**9))
"""With them the waiting jobs are counted, and none of them is near a cap."""


def topology(*limits: Limit, partitions: int = 1) -> Topology:
    """The shipped topology with these limits, and so many partitions of the dispatcher."""
    shipped = load()
    topics = {
        name: dataclasses.replace(topic, partitions=partitions)
        if topic.partitions == shipped.partitions
        else topic
        for name, topic in shipped.topics.items()
    }
    return dataclasses.replace(
        shipped,
        partitions=partitions,
        topics=topics,
        routes=ROUTES,
        limits=limits,
        max_queued=NEVER_FULL,
    )


class Desk:
    """One partition's dispatcher and scheduler, on a virtual clock."""

    partition = 0

    def __init__(self, *limits: Limit) -> None:
        self.topology = topology(*limits)
        stages = [dispatcher.stage(self.topology, CLUSTER_KEY), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, partitions=1)
        self.driver.advance(0.2)  # what lay in the log is heard out before anything is leased

    def deploy(self, **changes: Any) -> None:
        """The dispatcher starts anew with another topology; its disk stays."""
        self.topology = dataclasses.replace(self.topology, **changes)
        self.driver._broker._topology = self.topology
        self.driver.run_of("dispatcher").stage = dispatcher.stage(self.topology, CLUSTER_KEY)
        self.driver.restart("dispatcher", keep_state=True)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """What is sent meanwhile comes to the dispatcher in one batch."""
        flow, self.driver._flow = self.driver._flow, lambda: None  # type: ignore[method-assign]
        yield
        self.driver._flow = flow  # type: ignore[method-assign]
        self.driver._flow()

    def abort(self) -> None:
        """Take the next step, and take it back as an aborted transaction does."""
        run = self.driver.run_of("dispatcher")
        if records := run.unprocessed():
            run.tasks[0].process(records)
        run.tasks[0].punctuate()
        run.tasks[0].initiate()
        run.tasks[0].rollback()

    @contextmanager
    def without_topic(self, name: str) -> Iterator[None]:
        """The broker has no such topic meanwhile."""
        whole = self.driver._broker._topology
        others = {each: topic for each, topic in whole.topics.items() if each != name}
        self.driver._broker._topology = dataclasses.replace(whole, topics=others)
        yield
        self.driver._broker._topology = whole

    def event(
        self,
        key: str,
        tenant: str = "acme",
        *,
        type_: str = "ticket.created",
        at: int = 0,
        routed: bool = False,
        subject: str | None = None,
    ) -> str:
        """An event of `events`, about its key unless told; the id of the job it should have."""
        made = envelope(tenant, key, type_)
        event = dataclasses.replace(made, routed=routed, subject=subject or key)
        value = ENVELOPE.encode(event)
        by, to = tenant.encode(), self.partition
        self.driver.pipe("events", by, value, partition=to, timestamp=at or None)
        return event_job_id(tenant, "zendesk", key)

    def tenant(
        self,
        tenant: str = "acme",
        kind: Any = "tenant",
        *,
        disabled: bool = False,
        weight: float | None = None,
        limits: Sequence[dict[str, Any]] = (),
    ) -> None:
        """A record of `tenants`."""
        given = {"weight": weight, "limits": list(limits)}
        body = json.dumps({name: value for name, value in given.items() if value})
        record = TenantRecord(tenant, kind, "", disabled, body)
        key = tenant_key(tenant, kind, "")
        self.driver.pipe("tenants", key, TENANT.encode(record), partition=self.partition)

    def stop(self, scope: Any, value: str, *, resume: bool = False) -> None:
        """What the operator writes on `tenants` to pause or resume something."""
        for record in Pause(scope, value, "ann", "the bank is down", self.driver.now).records(1):
            key = tenant_key(record.tenant_id, record.kind, record.id)
            self.driver.pipe("tenants", key, None if resume else TENANT.encode(record))

    def held(self) -> dict[tuple[str, str, str | None], Held]:
        """What `jobs.held` says, by pool, type and tenant."""
        newest = {record.key: record.value for record in self.driver.output("jobs.held")}
        records = [HELD.decode(value) for value in newest.values() if value is not None]
        return {(held.pool, held.type, held.tenant_id): held for held in records}

    def command(
        self,
        body: CommandBody,
        job_id: str = "",
        epoch: int = 0,
        tenant: str = "acme",
        *,
        at: int = 0,
        call: Call | None = None,
        command_id: str = "",
    ) -> str:
        """A command of `jobs.commands`, appended `at` (now unless told); returns its id."""
        id_ = command_id or new_id("cmd")
        command = Command(id_, tenant, job_id, epoch, self.driver.now, body, call)
        value = COMMAND.encode(command)
        self.driver.pipe(
            "jobs.commands", b"acme", value, partition=self.partition, timestamp=at or None
        )
        return command.command_id

    def submit(
        self,
        job_id: str,
        type_: str = "draft_reply",
        *,
        tenant: str = "acme",
        at: int = 0,
        **fields: Any,
    ) -> None:
        body = Submit(type_, "{}", None, None, None, None, None, "ops", b"hash", None)
        self.command(dataclasses.replace(body, **fields), job_id, tenant=tenant, at=at)

    def cancel(self, job_id: str, incarnation: int | None = None, *, at: int = 0) -> None:
        self.command(Cancel("not needed", "ops", incarnation), job_id, at=at)

    def replay(self, job_id: str, of: str, *, fresh_scope: bool = False, **fields: Any) -> None:
        body = Replay(of, "vendor mended", fresh_scope, "ops")
        self.command(dataclasses.replace(body, **fields), job_id)

    def again(self, key: str, tenant: str = "acme", *, at: int = 0) -> None:
        """What dedup tells of a redelivery of an event within its window."""
        now = at or self.driver.now
        value = DUPLICATE.encode(Duplicate(tenant, 1, now, now, None))
        fingerprint_ = fingerprint(tenant, "zendesk", key)
        self.driver.pipe("duplicates", fingerprint_, value, timestamp=now)

    def move(self, job_id: str, pool: str) -> None:
        self.command(Move(pool, "more memory there", "ops"), job_id)

    def start_with(self, *routes: Route, **changes: Any) -> None:
        """Start the dispatcher anew on its state, under a topology with other routes."""
        self.topology = dataclasses.replace(self.topology, routes=routes, **changes)
        run = self.driver.run_of("dispatcher")
        run.stage = dispatcher.stage(self.topology, CLUSTER_KEY)
        self.driver.restart("dispatcher", keep_state=True)
        self.driver.advance(0.5)

    def job(self, job_id: str) -> Job:
        """The newest record of a job on `jobs`."""
        records = [r for r in self.driver.output("jobs") if r.key == job_id.encode()]
        return decoded.job(records[-1].value)

    def leases(self) -> list[Lease]:
        """Every lease: of the default pool in order, then those of other pools."""
        pools = sorted(self.topology.pools, key=lambda pool: (pool != "default", pool))
        work = [record for pool in pools for record in self.driver.output(f"jobs.work.{pool}")]
        return [decoded.lease(record.value, CLUSTER_KEY) for record in work]

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
        return [(record.partition, decoded.reply(record.value)) for record in records]

    def dead_letters(self) -> list[DeadLetter]:
        return [DEAD_LETTER.decode(record.value) for record in self.driver.output("dlq")]

    def ledger(self) -> list[LedgerEntry]:
        """Every entry written, in order."""
        return [LEDGER_ENTRY.decode(r.value) for r in self.driver.output("ledger") if r.value]


class ScriptedWorker:
    """Says what a worker says, when the test wants it said."""

    def __init__(
        self,
        desk: Desk,
        name: str = "w1/b1",
        *,
        slots: int = 10,
        types: tuple[str, ...] = (),
        attempts: int = 3,
        backoff: tuple[float, ...] = (10, 30),
        partition: int = 3,
        pool: str = "default",
    ) -> None:
        self.pool = pool
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

    def heartbeat(
        self,
        *tarpit: Lease,
        free: int | None = None,
        waits: bool = False,
    ) -> str:
        held = tuple(
            HeldLease(lease.job_id, lease.epoch, lease.alone and waits) for lease in tarpit
        )
        free = self.slots if free is None else free
        return self.desk.command(
            Heartbeat(
                self.name,
                self.pool,
                self.partition,
                free,
                held,
                self.handlers,
                received=self.received,
                leaving=False,
            )
        )

    def leave(self) -> None:
        """The last word of a process that ends in order."""
        body = Heartbeat(self.name, self.pool, self.partition, 0, (), (), leaving=True, received=0)
        self.desk.command(body)

    def stay(self, seconds: float, *tarpit: Lease, free: int | None = None) -> None:
        """Let time pass, with a heartbeat each five seconds and one at its end."""
        while seconds > 0:
            self.heartbeat(*tarpit, free=free)
            self.desk.driver.advance(min(seconds, 5))
            seconds -= 5
        self.heartbeat(*tarpit, free=free)

    def claim(
        self,
        lease: Lease,
        action: str = "email:send/reply",
        *,
        claim_id: str = "",
        digest: bytes = DIGEST,
        lifetime_ms: int = 0,
        once_per: str = "job",
        keep_ms: int = 0,
        model: str | None = None,
    ) -> Reply:
        """Ask, and return the answer."""
        body = Claim(
            self.name,
            self.partition,
            claim_id or new_id("clm"),
            lease.run_id,
            action,
            digest,
            lifetime_ms,
            once_per,
            keep_ms,
            model,
        )
        self.desk.command(body, lease.job_id, lease.epoch)
        return self.desk.replies()[-1]

    def outcome(
        self,
        lease: Lease,
        reply: Reply,
        status: Any,
        result: str | None = None,
        *,
        action: str = "email:send/reply",
        once_per: str = "job",
        blames_tool: bool = False,
    ) -> None:
        called = reply.claim_id, lease.run_id, action
        body = Outcome(*called, status, result, None, once_per, blames_tool)
        self.desk.command(body, lease.job_id, lease.epoch)

    def step(self, lease: Lease, name: str, value: str, claim_id: str = "") -> None:
        (result,) = left({name: value})
        done = Checkpoint(lease.run_id, result, claim_id)
        self.desk.command(done, lease.job_id, lease.epoch)

    def claim_step(self, lease: Lease, model: str, *, claim_id: str = "") -> Reply:
        """Ask for the call of a model by a step, and return the answer."""
        asked = claim_id or new_id("clm"), lease.run_id, "draft", model
        body = ClaimStep(self.name, self.partition, *asked)
        self.desk.command(body, lease.job_id, lease.epoch)
        return self.desk.replies()[-1]

    def step_failed(self, lease: Lease, claim_id: str) -> None:
        self.desk.command(StepFailed(lease.run_id, claim_id), lease.job_id, lease.epoch)

    def end(
        self,
        lease: Lease,
        status: Any,
        *,
        free: int = 10,
        result: str | None = None,
        error: str | None = None,
        after: float | None = None,
        traceback: str | None = None,
        diverged: str | None = None,
        waits: tuple[Wait, ...] = (),
    ) -> None:
        told = (result, error, after, self.received, traceback, diverged, waits)
        body = Ended(self.name, lease.run_id, free, status, *told)
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
