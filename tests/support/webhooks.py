"""Signed webhooks, the sources they are for, and a twin in memory of what stores them."""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import orjson

from streams.errors import KafkaUnavailable
from streams.serde.codec import TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import Envelope, TenantRecord
from streams.tenants.settings import SourceSettings, source_record
from streams.tenants.source_keys import Secret
from streams.topology.model import Priority, Route, Topology
from streams.vault.key_encryption import Vault, local_vault
from streams.vault.keyring import DataKeyring

SECRET = b"a secret of forty characters, at the least"
VAULT = local_vault(b"k" * 32)


def topology(*routes: Route, partitions: int = 4) -> Topology:
    """Zendesk tickets give a job, all else gives none, unless other routes are named."""
    return Topology(
        partitions=partitions,
        window_ms=7 * 86_400_000,
        topics={},
        stages={},
        priorities={"webhook": Priority("webhook", 0), "batch": Priority("batch", -300)},
        pools=("default",),
        job_types={},
        routes=routes or (Route("zendesk", "ticket.*", "draft_reply", "webhook"),),
        limits=(),
        finished_jobs_ms=14 * 86_400_000,
    )


def tenant_on(partition: int, partitions: int = 4) -> str:
    """A tenant whose records are on a partition."""
    names = (f"tenant-{number}" for number in count())
    return next(name for name in names if partition_for(name, partitions) == partition)


def source(
    tenant_id: str,
    name: str,
    scheme: str,
    secrets: Sequence[Secret] = (SECRET,),
    vault: Vault = VAULT,
    **settings: object,
) -> tuple[bytes, bytes]:
    """Key and value of the record that sets a source."""
    chosen = SourceSettings.model_validate({"scheme": scheme, **settings})
    record = source_record(vault, tenant_id, name, chosen, secrets, 1)
    return tenant_key(tenant_id, "source", name), TENANT.encode(record)


def tenant(tenant_id: str, *, disabled: bool = False, **settings: object) -> tuple[bytes, bytes]:
    """Key and value of the record that sets a tenant."""
    record = TenantRecord(tenant_id, "tenant", "", disabled, orjson.dumps(settings).decode())
    return tenant_key(tenant_id, "tenant", ""), TENANT.encode(record)


def signed(body: bytes, secret: bytes = SECRET) -> dict[str, str]:
    """Headers of scheme `hmac-sha256` with its default options."""
    return {"X-Signature": hmac.new(secret, body, "sha256").hexdigest()}


def zendesk_signed(body: bytes, secret: bytes = SECRET, at: float | None = None) -> dict[str, str]:
    """Headers as Zendesk sends them."""
    moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hmac.new(secret, stamp.encode() + body, "sha256").digest()
    return {
        "X-Zendesk-Webhook-Signature": base64.b64encode(digest).decode(),
        "X-Zendesk-Webhook-Signature-Timestamp": stamp,
        "X-Zendesk-Webhook-Invocation-Id": "8350205582",
    }


def ticket(id_: str, **more: object) -> bytes:
    """The body of a Zendesk event subscription."""
    event = {
        "type": "zen:event-type:ticket.created",
        "account_id": 12514403,
        "id": id_,
        "time": "2026-07-04T05:33:18Z",
        "zendesk_event_version": "2022-11-06",
        "subject": "zen:ticket:123",
        "detail": {"id": "123", "updated_at": "2026-07-04T05:33:18Z", "status": "OPEN"},
        "event": {},
    }
    return orjson.dumps({**event, **more})


@dataclass(frozen=True, slots=True)
class Sent:
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int
    headers: dict[str, bytes]
    offset: int


@dataclass
class MemoryLog:
    """A log in memory that acknowledges at once, or fails while `down`; `book` follows it."""

    records: list[Sent] = field(default_factory=list)
    down: bool = False
    book: DataKeyring = field(default_factory=lambda: DataKeyring(VAULT))

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        if self.down:
            raise KafkaUnavailable(f"{topic}: down")
        offset = len(self.on(topic))
        self.records.append(Sent(topic, key, value, partition, dict(headers), offset))
        if topic == "tenants":
            self.book.apply(key, value)
        return offset

    def on(self, topic: str) -> list[Sent]:
        return [record for record in self.records if record.topic == topic]

    def body(self, envelope: Envelope) -> bytes:
        """The raw body that an envelope refers to."""
        ref = envelope.payload_ref
        chunks = {r.offset: r.value or b"" for r in self.on("payloads")}
        key = self.book.find(envelope.tenant_id, ref.key_id).result(0)
        return key.open(envelope.event_id, [chunks[offset] for offset in ref.offsets], ref.size)


@dataclass
class SilentLog(MemoryLog):
    """A log that never acknowledges a record of one topic, or of one partition of it."""

    silent: str = "payloads"
    only: int | None = None
    held: int = 0

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, *, partition: int, **options: Any
    ) -> int:
        if topic == self.silent and self.only in (None, partition):
            self.held += 1
            await asyncio.Event().wait()
        return await super().send(topic, key, value, partition=partition, **options)
