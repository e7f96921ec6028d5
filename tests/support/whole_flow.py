"""The whole flow in memory: dedup, scheduler and dispatcher on the virtual clock, a real worker.

The worker is the product's own, in the test's event loop and on the same clock; its link leads to
that of the dispatcher. Nothing sleeps: time passes when a test says so, or while it waits for a
condition.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar, cast

import orjson

from streams import (
    App,
    Context,
    PermanentError,
    Retry,
    TransientError,
    dedup,
    dispatcher,
    scheduler,
)
from streams.link.answering import Answering
from streams.link.bodies import Bodies
from streams.link.live import Publishing
from streams.link.owner import Owner
from streams.link.sealing import Sealing
from streams.link.terms import Terms
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import Record
from streams.runtime.stage import FusedStage
from streams.serde.codec import COMMAND, DEAD_LETTER, ENVELOPE, LEDGER_ENTRY, TENANT
from streams.serde.ids import event_job_id, new_id, partition_for, submitted_job_id
from streams.serde.job_states import TERMINAL
from streams.serde.keys import tenant_key
from streams.serde.records import Command, Job, Lease, PayloadRef, StepResult, Submit
from streams.testing.link import Watch, Wire
from streams.testing.worker_process import Plug
from streams.topology.load import load
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring
from streams.worker.link.link import Link
from streams.worker.worker import Worker, WorkerSpec
from support import decoded
from support.dispatching import ROUTES, envelope

T = TypeVar("T")
STAGES = ("dedup", "scheduler", "dispatcher")
STORES = (
    ("dedup", "seen"),
    ("scheduler", "timers"),
    ("dispatcher", "jobs"),
    ("dispatcher", "checkpoints"),
    ("dispatcher", "ledger"),
)
_QUIET_ROUNDS = 20
_PATIENCE_SECONDS = 200


class Outside:
    """The world that handlers call: it counts, and keeps one call without an answer if told."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.keys: set[str] = set()
        self.hold: str | None = None
        self.held = False

    async def draft(self, tenant: str, ticket: str) -> str:
        self.calls["draft", tenant, ticket] += 1
        return f"dear customer of {tenant}"

    async def email(self, *, tenant: str, ticket: str, idempotency_key: str) -> str:
        return await self._call("email", tenant, ticket, idempotency_key)

    async def refund(self, *, tenant: str, ticket: str, idempotency_key: str) -> str:
        return await self._call("refund", tenant, ticket, idempotency_key)

    async def _call(self, action: str, tenant: str, ticket: str, key: str) -> str:
        self.calls[action, tenant, ticket] += 1
        self.keys.add(key)
        if self.hold == action:
            self.hold, self.held = None, True
            await asyncio.Event().wait()
        return f"{action} {ticket}"


def support(outside: Outside) -> App:
    """Draft, e-mail, refund where it is asked for; tickets say how they go wrong."""
    app = App("support")
    app.tool("email:send", key_lifetime=3_600)

    @app.job("draft_reply", retry=Retry(max_attempts=3, backoff=(10,)), timeout=60)
    async def draft_reply(ctx: Context) -> dict[str, str]:
        ticket = ctx.input or orjson.loads(await ctx.payload())
        whose = {"tenant": ctx.tenant_id, "ticket": ticket["id"]}
        draft = await ctx.step("draft", outside.draft, **whose)
        if "hopeless" in ticket["tags"]:
            raise PermanentError("no such customer")
        await ctx.effect("email:send", outside.email, key="reply", **whose)
        if "refund" in ticket["tags"]:
            await ctx.effect("payment:refund", outside.refund, key="order", **whose)
        if "flaky" in ticket["tags"] and ctx.attempt == 1:
            raise TransientError("the ticket system is busy")
        return {"draft": draft}

    return app


@dataclass(frozen=True)
class Story:
    """What came of everything, without the ids that differ from one run to the next."""

    events: tuple[str, ...]
    jobs: dict[str, tuple[str, int, str | None]]
    ledger: dict[tuple[str, str, str], tuple[str, int]]
    dead_letters: tuple[tuple[str, str], ...]
    calls: dict[tuple[str, str, str], int]


@dataclass
class Flow:
    """One pipeline; `disturb` is called at every turn: a record comes to it, or a second passes.

    `fused`: its stages are one, or apart.
    """

    outside: Outside = field(default_factory=Outside)
    disturb: Callable[[], None] = lambda: None
    fused: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.topology = replace(load(), routes=ROUTES)
        stages = [
            dedup.stage(self.topology),
            scheduler.stage(self.topology),
            dispatcher.stage(self.topology),
        ]
        fused = FusedStage("pipeline", tuple(stages))
        terms = Terms(
            "flow", self.topology.partitions, frozenset(self.topology.pools), self.topology.leases
        )
        self.driver = TopologyTestDriver(
            [fused] if self.fused else stages,
            self.topology,
            open_link=lambda workers: Owner(workers, terms, lambda: self.driver.now / 1000),
        )
        self.vault = local_vault(b"v" * 32)
        self.book = DataKeyring(self.vault)
        self._payloads: dict[tuple[int, int], bytes] = {}
        self.leases: list[Lease] = []
        self.driver.advance(0.2)  # what lay in the log is heard out before anything is leased
        self.start_worker()

    def start_worker(self) -> None:
        """A worker process of the same instance, which announces itself."""
        self._answering = Answering(
            Bodies(self, self.book, self._fetch),
            Sealing(self, self.book),
            Publishing(self, self, self.topology.partitions),
        )
        self._plug = Plug(self._wire)
        self.worker = Worker(
            support(self.outside),
            self._plug,
            self.topology,
            WorkerSpec("w1", slots=4),
            clock=lambda: self.driver.now / 1000,
        )
        self.worker.start()

    async def kill_worker(self) -> None:
        """It says nothing more, whatever it was doing."""
        self._plug.close()
        await self.worker.drain(0)

    def deliver(self, tenant: str, ticket: str, *tags: str) -> str:
        """One delivery of a ticket's event, as the ingress writes it; the id of its job."""
        body = orjson.dumps({"id": ticket, "tags": tags})
        event = replace(envelope(tenant, ticket, "ticket.created"), event_id=new_id("evt"))
        offset = len(self._payloads)
        key = self.book.current(tenant) or self._data_key(tenant)
        self._payloads[0, offset] = key.seal(event.event_id, 0, body)
        ref = PayloadRef(0, (offset,), len(body), key.key_id)
        self._pipe("events.received", tenant, ENVELOPE.encode(replace(event, payload_ref=ref)))
        return event_job_id(tenant, "zendesk", ticket)

    def submit(self, tenant: str, ticket: str, delay_seconds: float) -> str:
        """A direct submission, as the operator's API writes it."""
        text = orjson.dumps({"id": ticket, "tags": []}).decode()
        run_at = self.driver.now + round(delay_seconds * 1000)
        body = Submit("draft_reply", text, None, run_at, None, None, None, "ops", b"hash", None)
        job_id = submitted_job_id(tenant, ticket)
        command = Command(new_id("cmd"), tenant, job_id, 0, self.driver.now, body)
        self._pipe("jobs.commands", tenant, COMMAND.encode(command))
        return job_id

    async def settle(self) -> None:
        """All that can happen at this moment has happened."""
        quiet = 0
        while quiet < _QUIET_ROUNDS:
            quiet = 0 if self._exchange() else quiet + 1
            await asyncio.sleep(0)

    async def advance(self, seconds: int) -> None:
        """Let time pass; the worker's heartbeats go on."""
        for _ in range(seconds):
            self.disturb()
            self.driver.advance(1)
            self.worker.link.tick()
            await self.settle()

    async def until(self, condition: Callable[[], T], what: str) -> T:
        """The condition's first true value, letting as much time pass as that takes."""
        for _ in range(_PATIENCE_SECONDS):
            await self.settle()
            if value := condition():
                return value
            await self.advance(1)
        raise AssertionError(f"not within {_PATIENCE_SECONDS} virtual seconds: {what}")

    async def all_ended(self, *job_ids: str) -> None:
        await self.until(lambda: self.ended().issuperset(job_ids), f"{job_ids} ended")

    def ended(self) -> set[str]:
        return {job_id for job_id, job in self.jobs().items() if job.status in TERMINAL}

    def jobs(self) -> dict[str, Job]:
        """The newest record of every job."""
        found = (decoded.job(record.value) for record in self.driver.output("jobs"))
        return {job.job_id: job for job in found}

    def written(self) -> dict[str, int]:
        """How many records stand on each topic that shows what the pipeline did."""
        topics = ("events", "jobs", "ledger", "schedule", "dlq")
        return {topic: len(self.driver.output(topic)) for topic in topics}

    def lose_store(self, stage: str, name: str) -> None:
        """Delete one store's files, and start the stage anew."""
        for task in self.driver.run_of(stage).tasks.values():
            task.stores[name].backend.wipe()
        self.driver.restart(stage, keep_state=True)

    def story(self) -> Story:
        output = self.driver.output
        ledger = {r.key: LEDGER_ENTRY.decode(r.value) for r in output("ledger") if r.value}
        letters = (DEAD_LETTER.decode(r.value) for r in output("dlq"))
        return Story(
            events=tuple(sorted(_event(r) for r in output("events"))),
            jobs={j.job_id: (j.status, j.attempts, j.result) for j in self.jobs().values()},
            ledger={
                (e.tenant_id, e.scope, e.action): (e.status, e.claims) for e in ledger.values()
            },
            dead_letters=tuple(sorted((letter.id, letter.reason) for letter in letters)),
            calls=dict(self.outside.calls),
        )

    def job(self, partition: int, job_id: str) -> Job | None:
        """See `streams.link.requests.CommittedJobs`."""
        value = self.driver.store("dispatcher", "jobs", partition).get(job_id.encode())
        return None if value is None else decoded.job(value)

    def left(self, partition: int, job: Job, wait: str) -> StepResult | None:
        """See `streams.link.requests.CommittedJobs`; no job here waits."""
        return None

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, *, partition: int
    ) -> int:
        """See `streams.link.live.Publisher`."""
        self.driver.pipe(topic, key, value, partition=partition)
        return 0

    def _exchange(self) -> bool:
        """Pass on what the worker and the dispatcher have for each other."""
        self._plug.connect()  # a dispatcher that began anew has another link
        wire = self._plug.now
        return wire is not None and wire.exchange(self._flow)

    def _flow(self) -> None:
        self.disturb()
        with self.driver.together():
            pass

    def _wire(self, link: Link) -> Wire:
        owner = cast(Owner, self.driver.run_of("dispatcher").link)
        watch = Watch(lambda *_: None, self.leases.append)
        return Wire(link, owner, self._answering, watch, asyncio.get_running_loop())

    def _fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        found: Future[list[bytes]] = Future()
        found.set_result([self._payloads[ref.partition, offset] for offset in ref.offsets])
        return found

    def _data_key(self, tenant: str) -> DataKey:
        record = new_key_record(self.vault, tenant)
        self.book.apply(tenant_key(tenant, "data_key", record.id), TENANT.encode(record))
        return DataKey(self.vault, record)

    def _pipe(self, topic: str, tenant: str, value: bytes) -> None:
        self.disturb()
        partition = partition_for(tenant, self.topology.partitions)
        self.driver.pipe(topic, tenant.encode(), value, partition=partition)


def _event(record: Record) -> str:
    event = ENVELOPE.decode(record.value)
    return f"{event.tenant_id}/{event.dedup_key}"


@asynccontextmanager
async def flow(**given: Any) -> AsyncIterator[Flow]:
    made = Flow(**given)
    await made.settle()
    yield made
    await made.kill_worker()


TICKETS = (
    ("acme", "1"),
    ("globex", "1"),
    ("acme", "2", "flaky"),
    ("globex", "2", "refund"),
    ("initech", "3", "hopeless"),
    ("initech", "1", "refund", "flaky"),
)

LATER = {"acme": 31, "globex": 23, "initech": 27}
"""Seconds after which each tenant's delayed job is due."""


async def play(flow: Flow) -> Story:
    """A day in short: every event twice, delayed jobs, retries, then all events once more."""
    expected = {flow.submit(tenant, "later", seconds) for tenant, seconds in LATER.items()}
    for ticket in (*TICKETS, *TICKETS):
        expected.add(flow.deliver(*ticket))
        await flow.settle()
    await flow.all_ended(*expected)
    for ticket in TICKETS:
        flow.deliver(*ticket)
    await flow.advance(30)
    return flow.story()
