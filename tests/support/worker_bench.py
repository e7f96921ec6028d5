"""A worker in memory, with a dispatcher's side that a test scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from streams.serde.codec import COMMAND, REPLY, TENANT
from streams.serde.ids import new_id
from streams.serde.keys import tenant_key
from streams.serde.lease_mac import seal_lease
from streams.serde.records import (
    Claim,
    ClaimStep,
    Command,
    Declined,
    Ended,
    Heartbeat,
    Lease,
    Outcome,
    PayloadRef,
    Reply,
    ReplyKind,
)
from streams.testing.link import Sent
from streams.testing.plain_logs import plain_logs
from streams.topology.model import LeasePolicy, Priority, Topology
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import Vault, local_vault
from streams.vault.keyring import DataKeyring
from streams.worker.app import App
from streams.worker.worker import Worker, WorkerSpec
from support.conditions import PATIENCE_SECONDS
from support.memory_transport import MemoryTransport

B = TypeVar("B")
CLUSTER_KEY = b"c" * 32
OLDER_KEY = b"o" * 32
PARTITIONS = 4
Answer = Callable[[Any], dict[str, Any] | None]


def granted(claim: Claim) -> dict[str, Any]:
    """The ledger's usual answer."""
    return {"kind": "granted", "idempotency_key": f"idk of {claim.action}"}


def topology(leases: LeasePolicy | None = None, partitions: int = PARTITIONS) -> Topology:
    return Topology(
        partitions=partitions,
        window_ms=1,
        topics={},
        stages={},
        priorities={"webhook": Priority("webhook", 0)},
        pools=("default",),
        job_types={},
        routes=(),
        limits=(),
        finished_jobs_ms=1,
        leases=leases or LeasePolicy(),
    )


class Clock:
    """Monotonic time that a test moves; it tells when it was looked at."""

    def __init__(self) -> None:
        self.now = 0.0
        self._looked = asyncio.Event()

    def __call__(self) -> float:
        self._looked.set()
        return self.now

    async def looked_at(self) -> None:
        """Somebody looks from now on: while a handler waits here, only its run's watch does."""
        self._looked.clear()
        await self._looked.wait()


class Bench:
    """The other side of one worker."""

    def __init__(
        self,
        app: App,
        slots: int,
        leases: LeasePolicy,
        answer: Answer,
        clock: Callable[[], float],
    ) -> None:
        self.transport = MemoryTransport(self._sent)
        self.vault = local_vault(b"v" * 32)
        self.book = DataKeyring(self.vault)
        self.answer = answer
        self.worker = Worker(
            app,
            self.transport,
            topology(leases),
            WorkerSpec("w1", slots=slots),
            cluster_key=CLUSTER_KEY,
            older_keys=(OLDER_KEY,),
            book=self.book,
            clock=clock,
        )
        self.leases = leases
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def give(self, type: str = "job", **changes: Any) -> Lease:
        """Lease a job to the worker, in answer to its newest heartbeat to that partition."""
        home = changes.get("home_partition", 0)
        answered = self.heartbeats(home)[-1].command_id
        lease = replace(self.blank(type), **{"heartbeat_id": answered, **changes})
        self.transport.lease(seal_lease(lease, CLUSTER_KEY), key=lease.tenant_id.encode())
        return lease

    def blank(self, type: str = "job") -> Lease:
        """A lease for the worker that answers no heartbeat."""
        return replace(
            lease_to(0, self.worker.id),
            job_id=new_id("job"),
            run_id=new_id("run"),
            type=type,
            max_attempts=5,
            timeout_seconds=30,
            term_seconds=self.leases.term_seconds,
            input='{"n": 1}',
        )

    def notice(self, kind: ReplyKind, partition: int, worker_id: str | None = None) -> None:
        """A reply of a partition's dispatcher that concerns no run."""
        whom = self.worker.id if worker_id is None else worker_id
        self.transport.reply(REPLY.encode(Reply(whom, "", partition, "", kind)))

    def reply(self, lease: Lease, kind: str, claim_id: str = "", **fields: Any) -> None:
        reply = Reply(lease.worker_id, lease.job_id, lease.epoch, claim_id, kind, **fields)  # type: ignore[arg-type]
        self.transport.reply(REPLY.encode(reply))

    def commands(self) -> list[tuple[int, Command]]:
        """Every command sent so far, with its partition."""
        return [
            (sent.partition, COMMAND.decode(sent.value))
            for sent in self.transport.sent
            if sent.topic == "jobs.commands"
        ]

    def bodies(self, kind: type[B]) -> list[B]:
        return [c.body for _, c in self.commands() if isinstance(c.body, kind)]

    def heartbeats(self, partition: int) -> list[Command]:
        return [c for p, c in self.commands() if p == partition and isinstance(c.body, Heartbeat)]

    async def until(self, condition: Callable[[], B | None], what: str) -> B:
        """The condition's first true value; asked again after everything that is sent."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (value := condition()):
                    self._news.clear()
                    await self._news.wait()
                return value
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE_SECONDS:g} s: {what}") from None

    async def ended(self, lease: Lease) -> Ended:
        """How the run of a lease ended."""
        return await self.until(lambda: self._last(Ended, lease), f"Ended of {lease.type}")

    async def declined(self, lease: Lease) -> Declined:
        return await self.until(lambda: self._last(Declined, lease), f"Declined of {lease.type}")

    async def outcome(self, lease: Lease) -> Outcome:
        return await self.until(lambda: self._last(Outcome, lease), f"Outcome in {lease.type}")

    async def idle(self) -> None:
        """Every run is over, and what it had to say is said."""
        await self.idle_but(0)

    async def idle_but(self, running: int) -> None:
        """So many runs are left."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.worker.executor.running) > running:
                await asyncio.wait(set(self.worker.executor.running), return_when="FIRST_COMPLETED")

    def _last(self, kind: type[B], lease: Lease) -> B | None:
        found = [c.body for _, c in self.commands() if c.job_id == lease.job_id]
        return next((body for body in reversed(found) if isinstance(body, kind)), None)

    def _sent(self, sent: Sent) -> None:
        self._loop.call_soon_threadsafe(self._news.set)
        if sent.topic != "jobs.commands":
            return
        command = COMMAND.decode(sent.value)
        if isinstance(command.body, Claim | ClaimStep):
            fields = self.answer(command.body)
            if fields:
                claim = command.body
                reply = Reply(
                    claim.worker_id, command.job_id, command.epoch, claim.claim_id, **fields
                )
                self.transport.reply(REPLY.encode(reply))


@asynccontextmanager
async def bench(
    app: App,
    *,
    slots: int = 20,
    leases: LeasePolicy | None = None,
    answer: Answer = granted,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Bench]:
    """A started worker that has work partition 3 and has sent its first heartbeats."""
    made = Bench(app, slots, leases or LeasePolicy(), answer, clock)
    made.worker.start()
    made.transport.assign(3)
    made.worker.heartbeater.beat()
    with plain_logs():
        yield made
        await made.worker.drain(0)
    made.transport.on_send = None  # A thread may still have a last word; the loop ends now.


def data_key(book: DataKeyring, vault: Vault, tenant_id: str) -> DataKey:
    """A new key of a tenant, known to the book."""
    record = new_key_record(vault, tenant_id)
    book.apply(tenant_key(tenant_id, "data_key", record.id), TENANT.encode(record))
    return DataKey(vault, record)


def payload_ref(bench: Bench, tenant_id: str, event_id: str, *chunks: bytes) -> PayloadRef:
    """Seal a body into the memory transport, at partition 2 from offset 100 on."""
    key = data_key(bench.book, bench.vault, tenant_id)
    for index, chunk in enumerate(chunks):
        bench.transport.payloads[2, 100 + index] = key.seal(event_id, index, chunk)
    offsets = tuple(100 + index for index in range(len(chunks)))
    return PayloadRef(2, offsets, sum(map(len, chunks)), key.key_id)


def lease_to(home_partition: int, worker_id: str = "w1/boot") -> Lease:
    """A lease of a partition, for tests of what holds leases."""
    return Lease(
        worker_id=worker_id,
        job_id="job_1",
        epoch=1,
        run_id="run_1",
        tenant_id="acme",
        scope="s",
        type="job",
        incarnation=0,
        attempt=1,
        max_attempts=1,
        timeout_seconds=300,
        term_seconds=30,
        home_partition=home_partition,
        event=None,
        payload_ref=None,
        input="null",
        workflow_id=None,
        steps=(),
        traceparent=None,
        heartbeat_id="",
        granted_at=0,
        number=0,
        alone=False,
    )
