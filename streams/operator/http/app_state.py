"""The state that handlers share, and the waits after which an answer shows its own write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from aiohttp import web

from streams.event_admission import Admission
from streams.kafka.clients import AwaitedProducer
from streams.kafka.payload_reader import PayloadReader
from streams.operator.http.refusal import Refusal
from streams.operator.read_model.database import Database
from streams.operator.read_model.follower import Follower
from streams.operator.read_model.positions import PartitionKey
from streams.operator.read_model.read_barrier import Recency
from streams.operator.read_model.row_notifier import RowNotifier
from streams.operator.replay.producer import RecordReplays
from streams.operator.resources.table import Row, RowKey
from streams.operator.turns import Turns
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import COMMAND, TENANT
from streams.serde.records import Command, CommandBody, TenantRecord
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault

T = TypeVar("T")

SHOWN_WITHIN_SECONDS = 5.0
"""A call waits this long for the read model to show its effect, and then answers without it."""

SUBMITTED_BY = "operator"
"""The author of every call: any bearer of the one admin token."""


@dataclass(frozen=True, slots=True)
class AppState:
    """The parts of the running operator, shared by all requests."""

    topology: Topology
    vault: Vault
    database: Database
    follower: Follower
    notifier: RowNotifier
    producer: AwaitedProducer
    payloads: PayloadReader
    admission: Admission
    recency: Recency
    records: RecordReplays
    turns: Turns = field(default_factory=Turns)
    tenant_writes: asyncio.Lock = field(default_factory=asyncio.Lock)
    """This lock is held from reading a record of `tenants` until its replacement is durable."""
    unshown: dict[Row, TenantRecord] = field(default_factory=dict)
    """Records written to `tenants` that the read model does not show yet. The next change of the
    same record must start from them, or it would bring back what they removed."""

    def newest(self, key: Row, shown: TenantRecord | None) -> TenantRecord | None:
        """A record of `tenants` to change: as the read model shows it, or as it was written."""
        ours = self.unshown.get(key)
        return ours if ours and (not shown or ours.updated_at >= shown.updated_at) else shown

    async def ask(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on the read model, off the event loop."""
        return await asyncio.to_thread(self.database.read, query)

    async def once(
        self,
        row: RowKey,
        query: Callable[[sqlite3.Connection], T | None],
        others: Sequence[RowKey] = (),
    ) -> T | None:
        """The query's first answer that is not None, within `SHOWN_WITHIN_SECONDS`.

        It is asked again after each change of the row, or of one of the others.
        """
        return await self.notifier.until(row, lambda: self.ask(query), SHOWN_WITHIN_SECONDS, others)

    async def recent(self, *places: PartitionKey) -> None:
        """Return once the rows of these partitions are as new as this call.

        Raises:
            Refusal: 503, not within `SHOWN_WITHIN_SECONDS`.
        """
        await asyncio.gather(*(self.recency.of(p, SHOWN_WITHIN_SECONDS) for p in places))

    def home(self, tenant_id: str) -> int:
        """The partition of a tenant on every topic that is partitioned by tenant."""
        return ids.partition_for(tenant_id, self.topology.partitions)

    async def shown(self, row: RowKey, condition: Callable[[sqlite3.Connection], bool]) -> None:
        """Return once the read model fulfils a condition on a row.

        Raises:
            Refusal: 503, not within `SHOWN_WITHIN_SECONDS`.
        """
        if await self.once(row, lambda db: condition(db) or None) is None:
            raise not_shown()

    async def set_tenant(self, key: Row, record: TenantRecord | None) -> None:
        """Write a record of `tenants` by its whole key, or delete it; returns once it is durable.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still be written.
        """
        await self.producer.send(
            "tenants",
            keys.tenant_key(*key),
            None if record is None else TENANT.encode(record),
            partition=self.home(key[0]),
        )

    async def command(self, tenant_id: str, job_id: str, body: CommandBody) -> int:
        """Ask the dispatcher; returns the command's offset once it is durable.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still be written.
        """
        command = Command(ids.new_id("cmd"), tenant_id, job_id, 0, wall_ms(), body)
        return await self.producer.send(
            "jobs.commands",
            tenant_id.encode(),
            COMMAND.encode(command),
            partition=self.home(tenant_id),
        )


def replacing(before: TenantRecord | None, record: TenantRecord) -> TenantRecord:
    """A record of `tenants` that is of later than the one it replaces, whatever the clocks say:
    by its time it is told whether the read model shows it."""
    earliest = 0 if before is None else before.updated_at + 1
    return replace(record, updated_at=max(wall_ms(), earliest))


def not_shown() -> Refusal:
    """The refusal for a write that is durable while the read model is late."""
    late = "what was written is durable, but the read model does not show it: send the call again"
    return Refusal(503, "not-shown", late)


PARTS: web.AppKey[AppState] = web.AppKey("parts", AppState)
