"""The operator's calls over a read model in a file, without a broker."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from streams.api.operator_state import AppState
from streams.api.read_model.projections import Changes, project
from streams.api.serving.middlewares import problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.audit.entries import encoded, of_call
from streams.kafka.fenced_write import OutgoingRecord
from streams.runtime.processor import Record
from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import split, tenant_key
from streams.serde.records import DONE, REFUSED, AuditOutcome, CommandBody, TenantRecord
from streams.topology.load import load
from support.callers import AskedByAnybody, as_operator
from support.documented import documented


class OperatorDesk(AskedByAnybody):
    """What the calls need of the operator; `sent` are the commands that they sent.

    `tenant_records` are the keys of records that they wrote on `tenants`, with their partitions.
    """

    home = AppState.home
    follower: Any = SimpleNamespace(lag=None, folded=lambda _: 0)

    def __init__(self, rows: sqlite3.Connection) -> None:
        self.rows, self.topology = rows, load()
        self.sent: list[CommandBody] = []
        self.tenant_writes = asyncio.Lock()
        self.unshown: dict[Any, Any] = {}
        self.tenant_records: list[tuple[Any, int]] = []
        self.fenced = self

    def project(self, records: Iterable[tuple[str, bytes, bytes | None]]) -> None:
        """Fold records (topic, key, value) into the read model, as one batch."""
        batch: dict[str, Changes] = {}
        for topic, key, value in records:
            project(Record(topic, 0, 0, 0, key, value), batch)
        for changes in batch.values():
            changes.write(self.rows)

    async def query(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return query(self.rows)

    async def wait_for(self, row: Any, query: Callable[[sqlite3.Connection], Any], *_: Any) -> Any:
        return query(self.rows)

    async def wait_until(self, row: Any, condition: Callable[[sqlite3.Connection], bool]) -> None:
        assert condition(self.rows), f"{row} is not as it was written"

    async def set_tenant(
        self, key: Any, record: TenantRecord | None, partition: int | None = None, entry: Any = None
    ) -> int:
        home = partition_for(key[0], self.topology.partitions)
        self.tenant_records.append((key, home if partition is None else partition))
        value = None if record is None else TENANT.encode(record)
        self.project([("tenants", tenant_key(*key), value)])
        return len(self.tenant_records)

    async def open(self) -> Any:
        """A conditional write; `commit` ends it."""
        return self

    async def commit(self, *records: OutgoingRecord) -> list[int]:
        self.project([(each.topic, each.key or b"", each.value) for each in records])
        return [0] * len(records)

    async def audited(self, _: Any, *records: OutgoingRecord) -> list[int]:
        """Write records; their entry is left out."""
        for each in records:
            if each.topic == "tenants":
                found = tuple(split(each.key or b""))
                self.tenant_records.append((found, each.partition))
        return await self.commit(*records)

    def drop_shown(self) -> None:
        """The read model has every write at once."""

    def newest(self, key: Any, shown: TenantRecord | None) -> TenantRecord | None:
        return shown

    async def read_barrier(self, *_: Any) -> None:
        """The read model has caught up."""

    async def command(self, tenant_id: str, job_id: str, body: CommandBody) -> str:
        """Send a command, which no dispatcher decides."""
        self.sent.append(body)
        return f"cmd_{len(self.sent)}"

    def answer(
        self,
        command_id: str,
        reason: str | None = None,
        detail: str = "",
        after: str | None = None,
    ) -> None:
        """Have the read model show that a command was carried out, or refused for a reason."""
        outcome: AuditOutcome = DONE if reason is None else REFUSED
        told = None if reason is None else detail
        about: dict[str, Any] = {"reason": reason, "detail": told, "after": after}
        entry = of_call(self.call, "verb", "it", outcome, 1, command_id=command_id, **about)
        self.project([("audit", *encoded(entry))])


@asynccontextmanager
async def client_of(desk: OperatorDesk) -> AsyncIterator[TestClient[Any, Any]]:
    """The API over a desk."""
    app = web.Application(middlewares=[documented, problems, as_operator])
    app[STATE] = desk  # type: ignore[misc]
    app.add_routes(routes())
    async with TestClient(TestServer(app)) as client:
        yield client
