"""A dispatcher in memory with scripted workers; the test reads what it sends them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from streams import dispatcher, scheduler
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.link import LINK
from streams.runtime.memory_link import MemoryLink
from streams.runtime.processor import Record
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
from streams.serde.job_states import LEASED
from streams.serde.keys import tenant_key
from streams.serde.link import commands, frames
from streams.serde.link.messages import Answer, FromOwner, Leased, Wanted
from streams.serde.records import (
    Call,
    Cancel,
    Checkpoint,
    Claim,
    ClaimStep,
    Command,
    CommandBody,
    DeadLetter,
    DeclareSchedules,
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
from streams.serde.records.command_kinds import KIND_OF
from streams.tenants.pauses import Pause
from streams.topology.limits import Limit, MaxQueued
from streams.topology.load import load
from streams.topology.model import Route, Topology
from support import decoded
from support.former_commands import former
from support.step_results import left

DIGEST = b"d" * 32
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
    orders: Sequence[Record] = ()
    """What workers sent last."""
    _link: MemoryLink | None = None
    _logged = False

    def __init__(self, *limits: Limit) -> None:
        self.topology = topology(*limits)
        stages = [dispatcher.stage(self.topology), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, partitions=1)
        _ = self.driver._broker.records["jobs.commands", 0]  # a log that is begun first is read so
        self.driver.advance(0.2)  # the tenants in the log are read before anything is leased

    def deploy(self, **changes: Any) -> None:
        """The dispatcher starts anew with another topology; its disk stays."""
        self.topology = dataclasses.replace(self.topology, **changes)
        self.driver._broker._topology = self.topology
        self.driver.run_of("dispatcher").stage = dispatcher.stage(self.topology)
        self.driver.restart("dispatcher", keep_state=True)

    @contextmanager
    def held_back(self, *, logged: bool = False) -> Iterator[None]:
        """What is sent meanwhile comes to the dispatcher in one batch: that of workers at its end.

        If it is `logged`, workers report on the topic, so that the order among all is kept.
        """
        flow, self.driver._flow = self.driver._flow, lambda: None  # type: ignore[method-assign]
        self._logged = logged
        yield
        self._logged = False
        self.driver._flow = flow  # type: ignore[method-assign]
        self.driver._flow()
        self._send_again()

    def abort(self) -> None:
        """Take the next step, and take it back as an aborted transaction does."""
        run, link = self.driver.run_of("dispatcher"), self.driver.link()
        if records := run.unprocessed() + link.take(10_000):
            run.tasks[0].process(records)
        run.tasks[0].punctuate()
        run.tasks[0].initiate()
        run.tasks[0].rollback()
        link.again()

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
        """A command of `jobs.commands`, appended `at` (now unless told); returns its id.

        What a worker sends goes over the link, as from the one that has, or had, the run's lease.
        """
        if KIND_OF[type(body)].sender == "worker":
            worker_id = self._worker_of(body)
            if isinstance(body, DeclareSchedules) and worker_id not in self.driver.link().dialed:
                self.driver.link().connect(worker_id, "default")
            self.order(worker_id, body, job_id, epoch, tenant, at=at)
            return ""
        id_ = command_id or new_id("cmd")
        command = Command(id_, tenant, job_id, epoch, self.driver.now, body, call)
        value = COMMAND.encode(command)
        self.driver.pipe(
            "jobs.commands", b"acme", value, partition=self.partition, timestamp=at or None
        )
        return command.command_id

    def order(
        self,
        worker_id: str,
        body: CommandBody,
        job_id: str = "",
        epoch: int = 0,
        tenant: str = "acme",
        *,
        at: int = 0,
    ) -> None:
        """A command of a worker, over the link."""
        if self._logged:
            self.logged(body, job_id, epoch, tenant)
            return
        command = Command("", tenant, job_id, epoch, self.driver.now, body)
        value = frames.encoded(commands.order(self.partition, 1, command))
        sent = Record(LINK, self.partition, NO_OFFSET, self.driver.now, worker_id.encode(), value)
        self.orders = (*self.orders[-20:], sent)
        self._send_again()
        self.driver.pipe(*sent[:1], *sent[4:6], partition=self.partition, timestamp=at or None)
        self._send_again()

    def _send_again(self) -> None:
        """Have workers send to a new process what the one before did not acknowledge.

        A heartbeat is of the owner that it was for: no other one is sent it.
        """
        while (link := self.driver.link()) is not self._link:
            if self._link is not None:
                for record in self._link.unacknowledged:
                    if b'"kind":"heartbeat"' not in (record.value or b""):
                        link.send(record)
            self._link = link
            self.driver._flow()

    def logged(
        self, body: CommandBody, job_id: str = "", epoch: int = 0, tenant: str = "acme"
    ) -> None:
        """A command that a worker of an earlier release wrote on `jobs.commands`."""
        command = Command(new_id("cmd"), tenant, job_id, epoch, self.driver.now, body)
        value = former(command)
        self.driver.pipe("jobs.commands", b"acme", value, partition=self.partition)

    def _worker_of(self, body: CommandBody) -> str:
        self._read()
        return self._workers.get(getattr(body, "run_id", ""), "w1/b1")

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
        run.stage = dispatcher.stage(self.topology)
        self.driver.restart("dispatcher", keep_state=True)
        self.driver.advance(0.5)

    def job(self, job_id: str) -> Job:
        """The newest record of a job on `jobs`."""
        records = [r for r in self.driver.output("jobs") if r.key == job_id.encode()]
        return decoded.job(records[-1].value)

    def said(self) -> list[tuple[str, FromOwner]]:
        """What was said to workers over the link, in that order: to whom, and what."""
        self._read()
        return list(self._said)

    def leased(self) -> list[tuple[str, Lease]]:
        """Every lease with the worker that it was sent to, in the order of sending."""
        self._read()
        return list(self._leased)

    def leases(self) -> list[Lease]:
        """Every lease, in the order in which they were sent."""
        return [lease for _, lease in self.leased()]

    def taker(self, job_id: str) -> str:
        """The worker that the newest lease of a job was sent to."""
        return [to for to, lease in self.leased() if lease.job_id == job_id][-1]

    def _read(self) -> None:
        """Read what was said since the last time: many tests ask for all of it after each step."""
        for record in self.driver.output(LINK)[len(self._said) :]:
            message, to = decoded.said(record.value or b""), (record.key or b"").decode()
            self._said.append((to, message))
            if isinstance(message, Leased):
                self._leased.append((to, message.lease))
                self._workers.setdefault(message.lease.run_id, to)

    @cached_property
    def _said(self) -> list[tuple[str, FromOwner]]:
        return []

    @cached_property
    def _leased(self) -> list[tuple[str, Lease]]:
        return []

    @cached_property
    def _workers(self) -> dict[str, str]:
        """By run, the worker that got its lease first."""
        return {}

    def lease(self, job_id: str) -> Lease:
        """The newest lease of a job."""
        return [lease for lease in self.leases() if lease.job_id == job_id][-1]

    def replies(self) -> list[Reply]:
        """What was said to runs, in that order."""
        return [reply for _, reply in self.all_replies()]

    def all_replies(self) -> list[tuple[str, Reply]]:
        """With the worker to which each went."""
        return [(to, said.reply) for to, said in self.said() if isinstance(said, Answer)]

    def asked(self) -> list[str]:
        """The workers that were asked for credits, once for each time."""
        return [worker_id for worker_id, said in self.said() if isinstance(said, Wanted)]

    def dead_letters(self) -> list[DeadLetter]:
        return [DEAD_LETTER.decode(record.value) for record in self.driver.output("dlq")]

    def refusals(self) -> list[str]:
        """The reasons of commands that nobody could apply: of topics, then of the link."""
        told = [said.reply for _, said in self.said() if isinstance(said, Answer) and said.number]
        letters = [letter.reason for letter in self.dead_letters()]
        return letters + [reply.message.partition(":")[0] for reply in told]

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
        pool: str = "default",
        tenants: frozenset[str] | None = None,
    ) -> None:
        self.pool = pool
        self.desk = desk
        self.name = name
        self.slots = slots
        self.tenants = tenants
        self.forgets = False
        """Whether it has lost all leases by the time at which it dials again."""
        self._link: MemoryLink | None = None
        self._before = 0
        self._beats = 0
        self._told: tuple[Handler, ...] = ()
        names = types or ("draft_reply", "refund")
        self.handlers = tuple(Handler(name, attempts, backoff, 300) for name in names)

    @property
    def sent(self) -> int:
        """How many leases were sent to it so far."""
        return len(self.leases())

    @property
    def received(self) -> int:
        """It has read every lease that was sent to it over its connection."""
        return self.sent - self._before

    def leases(self) -> list[Lease]:
        """Every lease that was sent to it, in that order."""
        return [lease for to, lease in self.desk.leased() if to == self.name]

    @property
    def is_connected(self) -> bool:
        link = self.desk.driver.link()
        return self._link is link and self.name in link.dialed

    def connect(self) -> None:
        """Dial the process that owns the partition, unless that is done.

        This ends the connection of another boot of the same instance.
        """
        link = self.desk.driver.link()
        instance = self.name.rpartition("/")[0] + "/"
        for other in [each for each in link.dialed if each.startswith(instance)]:
            if other != self.name:
                link.disconnect(other)
        if self._told != self.handlers:
            self.lose_connection()
        if not self.is_connected:
            self._link, self._before, self._told = link, self.sent, self.handlers
            link.connect(self.name, self.pool, self.handlers, self.tenants)

    def beat(self, free: int | None = None, *, draining: bool = False) -> None:
        """Give a sign of life: it takes `free` more leases, as many as it has slots unless told."""
        assert self._link is not None
        self._beats += 1
        limit = self.received + (self.slots if free is None else free)
        now = self.desk.driver._clock.monotonic()
        self._link.beat(self.name, self._beats, limit, now, draining=draining)

    def heartbeat(
        self,
        *tarpit: Lease,
        free: int | None = None,
        waits: bool = False,
    ) -> None:
        """Give a sign of life, and list leases: those that it has, if it dials just now."""
        if not (tarpit or self.forgets or self.is_connected):
            tarpit = self.living()
        self.connect()
        self.beat(free)
        self.lists(*tarpit, waits=waits)
        if not self.is_connected:  # the process died meanwhile
            self.connect()
            self.beat(free)
            self.lists(*(tarpit or self.living()), waits=waits)

    def living(self) -> tuple[Lease, ...]:
        """Its leases whose runs have not ended."""
        newest = {lease.job_id: lease for lease in self.leases()}
        jobs = {job_id: self.desk.job(job_id) for job_id in newest}
        return tuple(
            lease
            for job_id, lease in newest.items()
            if jobs[job_id].epoch == lease.epoch and jobs[job_id].status in LEASED
        )

    def lists(self, *tarpit: Lease, waits: bool = False) -> None:
        """List leases, and give no sign of life of the connection."""
        held = tuple(
            HeldLease(lease.job_id, lease.epoch, lease.alone and waits) for lease in tarpit
        )
        self.order(Heartbeat(held))

    def order(self, body: CommandBody, job_id: str = "", epoch: int = 0) -> None:
        """Send a command."""
        self.desk.order(self.name, body, job_id, epoch)

    def lose_connection(self) -> None:
        """Its connection breaks; it dials again with its next heartbeat."""
        if self.is_connected and self._link is not None:
            self._link.disconnect(self.name)
        self._link = None

    def leave(self) -> None:
        """End in order: take nothing more, and close the connection."""
        self.connect()
        self.beat(0, draining=True)
        self.lose_connection()

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
            claim_id or new_id("clm"),
            lease.run_id,
            action,
            digest,
            lifetime_ms,
            once_per,
            keep_ms,
            model,
        )
        self.order(body, lease.job_id, lease.epoch)
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
        self.order(body, lease.job_id, lease.epoch)

    def step(self, lease: Lease, name: str, value: str, claim_id: str = "") -> None:
        (result,) = left({name: value})
        done = Checkpoint(lease.run_id, result, claim_id)
        self.order(done, lease.job_id, lease.epoch)

    def claim_step(self, lease: Lease, model: str, *, claim_id: str = "") -> Reply:
        """Ask for the call of a model by a step, and return the answer."""
        asked = claim_id or new_id("clm"), lease.run_id, "draft", model
        body = ClaimStep(*asked)
        self.order(body, lease.job_id, lease.epoch)
        return self.desk.replies()[-1]

    def step_failed(self, lease: Lease, claim_id: str) -> None:
        self.order(StepFailed(lease.run_id, claim_id), lease.job_id, lease.epoch)

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
        if self.is_connected:
            self.beat(free)
        told = (result, error, after, traceback, diverged, waits)
        body = Ended(lease.run_id, status, *told)
        self.order(body, lease.job_id, lease.epoch)

    def decline(self, lease: Lease) -> None:
        """It has no slot for a lease."""
        body = Declined("no")
        self.order(body, lease.job_id, lease.epoch)


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
