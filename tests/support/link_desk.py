"""What answers workers' requests, over jobs, bodies and a producer in memory."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from streams import user_json
from streams.errors import PermanentError
from streams.link.answering import Answering
from streams.link.bodies import IN_ALL_BYTES, SENT_SECONDS, Bodies
from streams.link.committed_jobs import OwnedJobs, Stores
from streams.link.flow import Bounds
from streams.link.grant import Grant
from streams.link.live import Publishing
from streams.link.requests import Request
from streams.link.sealing import Sealing
from streams.serde.codec import JOB, STEP_RESULT, TENANT
from streams.serde.keys import checkpoint_key, tenant_key
from streams.serde.link.messages import Done, Failed, FromOwner, Piece
from streams.serde.records import EventInfo, Job, PayloadRef, StepResult, TenantRecord
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring
from support.operator_cluster import make_job

M = TypeVar("M")

PARTITION, PARTITIONS = 3, 16
WORKER, EPOCH, RUN = "worker_a:1", 4, "run_1"


class Wire:
    """A worker's connection, of which a test reads what the owner has sent."""

    def __init__(self, worker_id: str = WORKER, grant: Grant | None = None) -> None:
        self.worker_id = worker_id
        self.grant = grant or Grant("token_1", "agents")
        self.sent: list[FromOwner] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self._came = asyncio.Event()

    def send(self, message: FromOwner) -> None:
        self.sent.append(message)
        self._came.set()

    async def room(self) -> None:
        await self.reads.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self._came.clear()
                await self._came.wait()

    async def answers(self, number: int) -> list[Done | Failed]:
        """So many answers that are no pieces, as soon as they are there."""
        await self.until(lambda: len(self._whole()) >= number)
        return self._whole()

    async def failure(self) -> Failed:
        (found,) = await self.answers(1)
        assert isinstance(found, Failed), found
        return found

    def body(self, request: int) -> bytes:
        """The pieces of an answer, joined as a worker joins them."""
        found = b""
        for piece in self.sent:
            if isinstance(piece, Piece) and piece.request == request:
                assert piece.at == len(found)
                found += piece.data
        return found

    def has_body(self, request: int) -> bool:
        return any(
            isinstance(piece, Piece) and piece.request == request and piece.last
            for piece in self.sent
        )

    async def got(self, request: int) -> bytes:
        await self.until(lambda: self.has_body(request))
        return self.body(request)

    def _whole(self) -> list[Done | Failed]:
        return [each for each in self.sent if isinstance(each, Done | Failed)]


class Payloads:
    """Sealed chunks by the offset of the first of them; with `hangs`, reads wait."""

    def __init__(self) -> None:
        self.chunks: dict[int, list[bytes]] = {}
        self.hangs = False
        self.waiting: list[tuple[PayloadRef, Future[list[bytes]]]] = []
        self.most_at_once = 0

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        future = Future[list[bytes]]()
        self.waiting.append((ref, future))
        self.most_at_once = max(self.most_at_once, len(self.waiting))
        if not self.hangs:
            self.answer()
        return future

    def answer(self) -> None:
        for ref, future in self.waiting:
            if not future.set_running_or_notify_cancel():
                continue
            if not ref.offsets:
                future.set_result([])
            elif ref.offsets[0] in self.chunks:
                future.set_result(self.chunks[ref.offsets[0]])
            else:
                future.set_exception(PermanentError(f"payloads:0:{ref.offsets[0]} is gone"))
        self.waiting.clear()


class Printed:
    """A producer whose records a test reads; while it is `stopped`, nothing is acknowledged."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes | None, bytes | None, int]] = []
        self.error: Exception | None = None
        self.runs = asyncio.Event()
        self.runs.set()

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, *, partition: int
    ) -> int:
        if self.error is not None:
            raise self.error
        self.records.append((topic, key, value, partition))
        await self.runs.wait()
        return len(self.records)


class LinkDesk:
    """An owner of one partition, with jobs of several tenants."""

    def __init__(
        self,
        in_all: int = IN_ALL_BYTES,
        sent_seconds: float = SENT_SECONDS,
        bounds: Bounds | None = None,
    ) -> None:
        self.vault = local_vault(b"k" * 32)
        self.keyring = DataKeyring(self.vault)
        self.jobs, self.payloads, self.printed = OwnedJobs(), Payloads(), Printed()
        self.seconds = 0.0
        self._keys: dict[str, DataKey] = {}
        self._offsets = itertools.count(100)
        self._rows: dict[bytes, bytes] = {}
        self.jobs.opened(PARTITION, Stores(self._rows.get, self._rows.get))
        bodies = Bodies(self.jobs, self.keyring, self.payloads.fetch, in_all, sent_seconds)
        publishing = Publishing(
            self.jobs,
            self.printed,
            PARTITIONS,
            bounds,
            lambda: self.seconds,
            self.keyring.is_erased,
        )
        self.answering = Answering(bodies, Sealing(self.jobs, self.keyring), publishing)

    def ask(self, wire: Wire, *requests: Request) -> Wire:
        for request in requests:
            self.answering.ask(wire, request)
        return wire

    def put(self, job: Job) -> Job:
        """Commit a job."""
        self._rows[job.job_id.encode()] = JOB.encode(job)
        return job

    def leave(self, job: Job, result: StepResult) -> None:
        """Commit what a wait or step of a job left."""
        key = checkpoint_key(job.job_id, job.incarnation, result.id)
        self._rows[key] = STEP_RESULT.encode(result)

    def leased(self, job_id: str = "job_a", tenant_id: str = "acme", **fields: Any) -> Job:
        """A job whose living lease the worker of a `Wire` has."""
        lease = {"status": "running", "worker_id": WORKER, "epoch": EPOCH, "run_id": RUN}
        return self.put(make_job(job_id, tenant_id, **(lease | fields)))

    def with_body(self, body: bytes, job_id: str = "job_a", tenant_id: str = "acme") -> Job:
        """A leased job with an event whose body this is."""
        event = an_event(f"evt_{job_id}")
        ref = self.stored(tenant_id, event.event_id, body)
        return self.leased(job_id, tenant_id, event=event, payload_ref=ref)

    def stored(self, tenant_id: str, event_id: str, body: bytes) -> PayloadRef:
        """Store a sealed body."""
        key, first = self.key(tenant_id), next(self._offsets)
        parts = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
        self.payloads.chunks[first] = [key.seal(event_id, n, p) for n, p in enumerate(parts)]
        offsets = (first,) * len(parts)
        return PayloadRef(PARTITION, offsets, len(body), key.key_id)

    def key(self, tenant_id: str) -> DataKey:
        if tenant_id not in self._keys:
            record = new_key_record(self.vault, tenant_id)
            self.keyring.apply(tenant_key(tenant_id, "data_key", record.id), TENANT.encode(record))
            self._keys[tenant_id] = DataKey(self.vault, record)
        return self._keys[tenant_id]

    def erase(self, tenant_id: str) -> None:
        record = TenantRecord(tenant_id, "erasure", "", False, "{}")
        self.keyring.apply(tenant_key(tenant_id, "erasure", ""), TENANT.encode(record))


def an_event(event_id: str) -> EventInfo:
    return EventInfo(event_id, "shop", "paid", None, None, 1, "text/plain", None, None, "k", {})


def left_by_event(wait: str, event: EventInfo, ref: PayloadRef, kind: str = "event") -> StepResult:
    """What a wait left that an event ended, as the dispatcher writes it."""
    plain = {name: getattr(event, name) for name in event.__slots__}
    place = {"partition": ref.partition, "offsets": ref.offsets, "size": ref.size}
    value = {"event": plain, "payload_ref": {**place, "key_id": ref.key_id}, "number": 1}
    return StepResult(wait, kind, value=user_json.write(value).decode())


def some_bytes(size: int) -> bytes:
    return os.urandom(size)


def moved(job: Job, **changes: Any) -> Job:
    return replace(job, **changes)
