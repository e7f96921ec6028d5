"""The state that handlers share, and the waits after which an answer shows its own write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar
from weakref import WeakValueDictionary

from streams.access.authentication import Authentication
from streams.access.principal import BOOTSTRAP, Principal
from streams.api.audit import table as audit
from streams.api.audited_writes import AuditedWrites
from streams.api.condition import Condition
from streams.api.read_model.database import Database
from streams.api.read_model.follower import Follower
from streams.api.read_model.read_barrier import ReadBarrier
from streams.api.read_model.row_notifier import RowNotifier
from streams.api.recorded_state import recorded
from streams.api.refusal import Refusal
from streams.api.refused_attempts import RefusedAttempts
from streams.api.rows.table import Row, RowKey
from streams.artifacts.store import ArtifactStore
from streams.audit.chain import Head, chain_of, linked
from streams.audit.entries import TOPIC, encoded, of_call
from streams.delivery.egress.policy import EgressPolicy
from streams.errors import KafkaUnavailable
from streams.event_admission import Admission
from streams.event_replay.preview import Preview
from streams.kafka.clients import AwaitedProducer
from streams.kafka.fenced_write import FencedWrites, OutgoingRecord
from streams.kafka.offsets import Place
from streams.kafka.payload_reader import PayloadReader
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import COMMAND, TENANT
from streams.serde.records import (
    DONE,
    REFUSED,
    AuditEntry,
    Call,
    Command,
    CommandBody,
    TenantRecord,
)
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring

T = TypeVar("T")

SHOWN_WITHIN_SECONDS = 5.0
"""How long a call waits for the read model to show its effect; then it answers without it."""


SETTINGS_WRITER = "operator.settings"
"""The transactional id, and the chain, of writes that one operator at a time may do."""


@dataclass(frozen=True, slots=True)
class AppState:
    """The parts of the running operator that all requests share."""

    topology: Topology
    vault: Vault
    keyring: DataKeyring
    artifacts: ArtifactStore | None
    database: Database
    follower: Follower
    notifier: RowNotifier
    producer: AwaitedProducer
    payloads: PayloadReader
    admission: Admission
    barrier: ReadBarrier
    fenced: FencedWrites
    """Writes of records that no other operator may have changed meanwhile."""
    audited_writes: AuditedWrites
    egress: EgressPolicy
    topic_prefix: str
    preview: Preview
    ready: Callable[[], bool]
    """Whether the topics are read to their end, and have the declared numbers of partitions."""
    authentication: Authentication
    """What knows who calls, and all tokens."""
    preview_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a replay of events is previewed: each preview reads much and computes much."""
    refused_attempts: RefusedAttempts = field(default_factory=RefusedAttempts)
    tenant_writes: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the reading of a record of `tenants` until its replacement is durable."""
    bulk_turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By bulk act: held from the look whether it is known until what is asked is durable."""
    unshown: dict[Row, tuple[int, TenantRecord]] = field(default_factory=dict)
    """Records written to `tenants`, with their offsets, that the read model may not show yet. The
    next change of the same record must start from them, or it would bring back what they removed.
    """
    principal: Principal = BOOTSTRAP
    """Who asks: what is read is restricted to their tenants, and what is done has their name."""

    condition: Condition | None = None
    """What the call asks of the thing that it changes."""
    new_tags: dict[Row, str | None] = field(default_factory=dict)
    """The tags of the settings that the call has written, as its answer shows them."""
    request_id: str = ""
    """That of the call, by which commands and the audit name it."""
    verb: str = ""
    """What the audit calls that which the call does; without one, it is no person's act."""
    command_id: str | None = None
    """The id of the one command that a repeated call sends; None gives each command a new one."""

    def asked_by(self, principal: Principal, request_id: str, verb: str = "") -> AppState:
        """Return the same parts, as one who calls sees them."""
        return replace(self, principal=principal, request_id=request_id, verb=verb, new_tags={})

    def under(self, condition: Condition | None, new_tags: dict[Row, str | None]) -> AppState:
        """Return the same parts, for a call that changes something that has a tag."""
        return replace(self, condition=condition, new_tags=new_tags)

    def sending(self, command_id: str) -> AppState:
        """Return the same parts, for a call whose one command has this id."""
        return replace(self, command_id=command_id)

    def new_command_id(self) -> str:
        """Return the id of the next command; a stage decides one id once."""
        return ids.new_id("cmd") if self.command_id is None else self.command_id

    def drop_shown(self) -> None:
        """Forget the writes that the read model has folded in: it knows what came after them, too.

        Call it before the query whose result `newest` gets.
        """
        for key, (offset, _) in list(self.unshown.items()):
            if self.follower.folded(("tenants", self.home(key[0]))) > offset:
                del self.unshown[key]

    def newest(self, key: Row, shown: TenantRecord | None) -> TenantRecord | None:
        """Return the newer of a record of `tenants` in the read model and the one written here."""
        if key not in self.unshown:
            return shown
        _, ours = self.unshown[key]
        return ours if shown is None or ours.updated_at >= shown.updated_at else shown

    async def query(self, look: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on the caller's rows of the read model, off the event loop."""
        return await asyncio.to_thread(self.database.read, look, self.principal.tenants)

    async def wait_for(
        self,
        row: RowKey,
        look: Callable[[sqlite3.Connection], T | None],
        others: Sequence[RowKey] = (),
        seconds: float | None = None,
    ) -> T | None:
        """Return the query's first result that is not None; None after `seconds`.

        The query runs again after each change of the row or of one of the others. Without
        `seconds`, it waits for `SHOWN_WITHIN_SECONDS`.
        """
        within = SHOWN_WITHIN_SECONDS if seconds is None else seconds
        return await self.notifier.until(row, lambda: self.query(look), within, others)

    async def read_barrier(self, *places: Place) -> None:
        """Return once the rows of these partitions are as new as this call.

        Raises:
            Refusal: 503, this took longer than `SHOWN_WITHIN_SECONDS`.
        """
        await asyncio.gather(*(self.barrier.wait(p, SHOWN_WITHIN_SECONDS) for p in places))

    def home(self, tenant_id: str) -> int:
        """Return a tenant's partition on every topic that is partitioned by tenant."""
        return ids.partition_for(tenant_id, self.topology.partitions)

    async def wait_until(
        self, row: RowKey, condition: Callable[[sqlite3.Connection], bool]
    ) -> None:
        """Return once a condition on a row holds in the read model.

        Raises:
            Refusal: 503, this took longer than `SHOWN_WITHIN_SECONDS`.
        """
        if await self.wait_for(row, lambda db: condition(db) or None) is None:
            raise not_shown()

    async def set_tenant(
        self,
        key: Row,
        record: TenantRecord | None,
        partition: int | None = None,
        entry: AuditEntry | None = None,
    ) -> int:
        """Write a record of `tenants`, or delete it; return its offset once that is durable.

        It is in its tenant's partition unless another one is given.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still be written.
        """
        home = self.home(key[0]) if partition is None else partition
        offsets = await self.audited(entry, tenant_record(key, record, home))
        if offsets is None:  # the read model shows the record then, as its entry
            return -1
        return offsets[0]

    async def audited(self, entry: AuditEntry | None, *records: OutgoingRecord) -> list[int] | None:
        """Write records in one transaction with the entry that tells of them; return the offsets.

        They are None if only the read model shows that it was committed. Without an entry, each
        record is written for itself.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still be written.
        """
        if entry is not None:
            home = self.home(entry.tenant_id)
            offsets = await self.audited_writes.write(entry, home, records)
            if offsets is None:
                await self.read_barrier(*{(each.topic, each.partition) for each in records})
            return offsets
        send = self.producer.send
        sent = (
            send(each.topic, each.key, each.value, partition=each.partition, headers=each.headers)
            for each in records
        )
        return list(await asyncio.gather(*sent))

    def entry(
        self,
        target: str,
        tenant_id: str = "",
        *,
        before: TenantRecord | str | None = None,
        after: TenantRecord | str | None = None,
        note: str | None = None,
        verb: str = "",
    ) -> AuditEntry | None:
        """Return the entry of what the call does; None if it is no person's act.

        Its verb is that of the call, unless another one is given.
        """
        verb = verb or self.verb
        if not verb:
            return None
        states = {"before": _text(before), "after": _text(after)}
        return of_call(
            self.call, verb, target, DONE, wall_ms(), tenant_id=tenant_id, note=note, **states
        )

    async def refused(self, call: Call, verb: str, target: str, why: str, detail: str) -> None:
        """Write the entry of a refused attempt, unless there are too many, or Kafka is away."""
        if not self.refused_attempts.take(call.principal):
            return
        reason = why.replace("-", "_")
        entry = of_call(call, verb, target, REFUSED, wall_ms(), reason=reason, detail=detail)
        with suppress(KafkaUnavailable, Refusal, TimeoutError):
            async with asyncio.timeout(SHOWN_WITHIN_SECONDS):
                await self.audited(entry)

    async def chained(self, writer: str, entry: AuditEntry | None) -> list[OutgoingRecord]:
        """Return an entry as the next record of a writer that nobody else is meanwhile."""
        if entry is None:
            return []
        home = self.home(entry.tenant_id)
        heads = await self.heads(writer, (home,))
        return [OutgoingRecord(TOPIC, *encoded(linked(entry, heads[home])), home)]

    async def heads(self, writer: str, partitions: Sequence[int]) -> dict[int, Head]:
        """Return the newest entries of a writer, once all that it wrote is read.

        Raises:
            Refusal: 503, the read model is late, or was rebuilt meanwhile: call again.
        """
        await self.read_barrier(*((TOPIC, each) for each in partitions))

        def look(connection: sqlite3.Connection) -> dict[int, Head]:
            return {p: audit.head(connection, chain_of(writer, p)) for p in partitions}

        found = await asyncio.to_thread(self.database.read, look)
        if not self.ready():  # rows may be missing: a chain would begin again
            raise Refusal(503, "not-ready", "the read model is being rebuilt: call again")
        return found

    async def shows(self, head: Head) -> bool:
        """Return whether a chain has the entry with this number and hash, as far as it is read.

        Raises:
            Refusal: 503, the read model was rebuilt meanwhile: call again.
        """
        found = await asyncio.to_thread(self.database.read, lambda db: audit.has(db, head))
        if not found and not self.ready():
            raise Refusal(503, "not-ready", "the read model is being rebuilt: call again")
        return found

    @property
    def call(self) -> Call:
        """Who asks, as commands say it: the stage that decides one answers it."""
        return Call(self.principal.id, self.principal.role, self.request_id)

    async def command(self, tenant_id: str, job_id: str, body: CommandBody) -> str:
        """Send a command to the dispatcher; return its id once it is durable.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still be written.
        """
        id_ = self.new_command_id()
        command = Command(id_, tenant_id, job_id, 0, wall_ms(), body, self.call)
        await self.send_home("jobs.commands", tenant_id, COMMAND.encode(command))
        return command.command_id

    async def send_home(self, topic: str, tenant_id: str, value: bytes) -> int:
        """Write a record under a tenant's id, to its partition; return its offset once durable.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still be written.
        """
        home = self.home(tenant_id)
        return await self.producer.send(topic, tenant_id.encode(), value, partition=home)


def tenant_record(key: Row, record: TenantRecord | None, partition: int) -> OutgoingRecord:
    """Return what sets a record of `tenants`, or deletes it."""
    value = None if record is None else TENANT.encode(record)
    return OutgoingRecord("tenants", keys.tenant_key(*key), value, partition)


def _text(state: TenantRecord | str | None) -> str | None:
    return recorded(state) if isinstance(state, TenantRecord) else state


def replacing(before: TenantRecord | None, record: TenantRecord) -> TenantRecord:
    """Return a record of `tenants` with a later time than the one it replaces, on any clock.

    The time tells whether the read model shows the record.
    """
    earliest = 0 if before is None else before.updated_at + 1
    return replace(record, updated_at=max(wall_ms(), earliest))


def not_shown() -> Refusal:
    """Return the refusal for a durable write that the read model does not show in time."""
    late = "what was written is durable, but the read model does not show it: send the call again"
    return Refusal(503, "not-shown", late)
