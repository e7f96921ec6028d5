"""The operator's streams over rows that a test writes: no Kafka, one event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from streams.api.live.http import STREAMS, Streams
from streams.api.live.hub import Hub
from streams.api.live.rounds import SharedReads
from streams.api.live.tickets import Tickets
from streams.api.operator_state import AppState
from streams.api.read_model.database import Database, transaction
from streams.api.read_model.projections import Changes, project
from streams.api.read_model.row_notifier import FOLDED, RowNotifier
from streams.api.rows.table import RowKey
from streams.api.serving.access import authenticated
from streams.api.serving.middlewares import newline_ended, problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.serde.codec import HELD, JOB, LEDGER_ENTRY, LIVE, PROGRESS, STEP_RESULT, WORKFLOW
from streams.serde.ids import partition_for
from streams.serde.keys import checkpoint_key, held_key, ledger_key, workflow_key
from streams.serde.records import Held, Job, LedgerEntry, LiveOutput, Progress, StepResult, Workflow
from streams.topology.load import load
from streams.vault.key_encryption import local_vault
from support.callers import TICKET_KEY, AskedByAnybody, access_of
from support.conditions import PATIENCE_SECONDS

TOKEN = "an-operator-s-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
HOUR_MS = 3_600_000
STEPS = "dispatcher.checkpoints.changelog"


@dataclass(frozen=True)
class StepOf:
    """A finished step of a job, as the dispatcher's changelog has it."""

    job_id: str
    step: StepResult


class Rows(AskedByAnybody):
    """One replica's read model: `fold` gives it records that are on the topics."""

    home = AppState.home

    def __init__(self, path: Path, kept_hours: int = 6) -> None:
        self.topology = load()
        self.database = Database(path)
        self.writer = self.database.open_writer()
        self.notifier = RowNotifier(asyncio.get_running_loop())
        self.asked: list[Any] = []
        self.reads = 0
        self.settled = asyncio.Event()
        self.settled.set()
        self.tickets = Tickets(local_vault(TICKET_KEY))
        self.access = access_of(TOKEN, self.tickets)
        reads, width = SharedReads(self.query_of), self.topology.partitions
        self.hub = Hub(self.notifier, reads, self.read_barrier, width)
        self.streams = Streams(self.hub, self.tickets, kept_hours * HOUR_MS)

    async def query(self, look: Callable[[sqlite3.Connection], Any]) -> Any:
        return await self.query_of(look, self.principal.tenants)

    async def query_of(
        self, look: Callable[[sqlite3.Connection], Any], tenants: frozenset[str] | None
    ) -> Any:
        self.reads += 1
        return await asyncio.to_thread(self.database.read, look, tenants)

    async def read_barrier(self, *places: Any) -> None:
        self.asked += places
        await self.settled.wait()

    def fold(self, *records: Record) -> None:
        """Fold records in one transaction, and announce their rows."""
        self.notifier.announce(self.fold_unheard(*records))

    def fold_unheard(self, *records: Record) -> list[RowKey]:
        """Fold records in one transaction; returns what is to be announced of them."""
        batch: dict[str, Changes] = {}
        for record in records:
            project(record, batch)
        with transaction(self.writer):
            for changes in batch.values():
                changes.write(self.writer)
        ends = {(r.topic, r.partition): r.offset + 1 for r in records}
        return [
            *((FOLDED, (*place, end)) for place, end in ends.items()),
            *((name, key) for name, c in batch.items() for key in c.rows),
        ]

    def ready(self) -> bool:
        return True


class Log:
    """The topics: gives each record its offset."""

    def __init__(self) -> None:
        self.topology = load()
        self._next: Counter[tuple[str, int]] = Counter()
        self.records: list[Record] = []

    def append(self, *values: Any, at: int | None = None) -> list[Record]:
        made = [self._record(value, wall_ms() if at is None else at) for value in values]
        self.records += made
        return made

    def delete(self, job: Job) -> Record:
        """The tombstone of a job."""
        return self._placed("jobs", job.tenant_id, job.job_id.encode(), None, wall_ms())

    def held(self, value: Held) -> Record:
        """Why no lease can be made for jobs of a partition."""
        key = held_key(value.partition, value.pool, value.type, value.tenant_id)
        return Record("jobs.held", value.partition, 0, wall_ms(), key, HELD.encode(value))

    def _record(self, value: Any, at: int) -> Record:
        match value:
            case Job():
                place = "jobs", value.tenant_id, value.job_id.encode(), JOB.encode(value)
            case LiveOutput():
                place = "jobs.live", value.tenant_id, value.job_id.encode(), LIVE.encode(value)
            case Progress():
                key, raw = value.job_id.encode(), PROGRESS.encode(value)
                place = "jobs.progress", value.tenant_id, key, raw
            case LedgerEntry():
                key = ledger_key(value.tenant_id, value.scope, value.action)
                place = "ledger", value.tenant_id, key, LEDGER_ENTRY.encode(value)
            case StepOf():
                key = checkpoint_key(value.job_id, 1, value.step.id)
                place = STEPS, "acme", key, STEP_RESULT.encode(value.step)
            case Workflow():
                key = workflow_key(value.tenant_id, value.workflow_id)
                place = "workflows", value.tenant_id, key, WORKFLOW.encode(value)
            case _:
                raise TypeError(value)
        return self._placed(*place, at)

    def _placed(
        self, topic: str, tenant_id: str, key: bytes, value: bytes | None, at: int
    ) -> Record:
        partition = partition_for(tenant_id, self.topology.partitions)
        offset = self._next[topic, partition]
        # Every other offset is a transaction marker, as where the dispatcher writes.
        self._next[topic, partition] += 2
        return Record(topic, partition, offset, at, key, value)


def token(job_id: str, n: int, text: str, *, step: str = "", epoch: int = 1) -> LiveOutput:
    return LiveOutput(job_id, "acme", f"run_{epoch}", epoch, 1, "token", step, n, text)


def reset(job_id: str, *, step: str = "", epoch: int = 2) -> LiveOutput:
    return LiveOutput(job_id, "acme", f"run_{epoch}", epoch, 1, "reset", step, 0, "")


def line(job_id: str, n: int, message: str) -> LiveOutput:
    text = orjson.dumps({"level": "info", "message": message, "fields": {"n": n}}).decode()
    return LiveOutput(job_id, "acme", "run_1", 1, 1, "log", "", n, text)


@asynccontextmanager
async def serving(rows: Rows) -> AsyncIterator[TestClient[Any, Any]]:
    """The API of a replica."""
    check = authenticated(rows.access)
    app = web.Application(middlewares=[newline_ended, problems, check])
    app[STATE] = rows  # type: ignore[misc]
    app[STREAMS] = rows.streams
    app.add_routes(routes())
    with closing(rows.writer):
        async with TestClient(TestServer(app)) as client:
            yield client
            rows.hub.close()
        await rows.hub.reads.close()
        rows.database.close()


@dataclass(frozen=True)
class Got:
    """A frame as a reader parses it."""

    id: str
    event: str
    data: Any


def parsed(raw: bytes) -> list[Got]:
    """The whole events in some bytes of a stream, as a browser understands them."""
    found = []
    for block in raw.split(b"\n\n")[:-1]:
        fields = dict(
            each.split(b": ", 1) for each in block.split(b"\n") if each and each[:1] != b":"
        )
        if b"data" in fields:
            data = orjson.loads(fields[b"data"])
            found.append(Got(fields[b"id"].decode(), fields[b"event"].decode(), data))
    return found


async def opened(
    client: TestClient[Any, Any], path: str, last: str | None = None
) -> ClientResponse:
    """A stream from an id on."""
    more = {} if last is None else {"Last-Event-ID": last}
    return await client.get(path, headers={**HEADERS, **more})


async def until(answer: ClientResponse, event: str, times: int = 1) -> list[Got]:
    """The events of a stream up to the one of this name."""
    raw = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while sum(got.event == event for got in parsed(raw)) < times:
            piece = await answer.content.readany()
            assert piece, f"the stream ended without {event}: {raw!r}"
            raw += piece
    return parsed(raw)


def texts(got: list[Got]) -> dict[str, str]:
    """What a reader has of each step, as docs/live.md says."""
    found: dict[str, str] = {}
    for each in got:
        match each.event:
            case "token":
                found[each.data["step"]] = found.get(each.data["step"], "") + each.data["text"]
            case "reset":
                found.pop(each.data["step"], None)
            case "gap":
                found.clear()
    return found
