"""Makes an event durable: sealed body to `payloads`, then its envelope to `events.received`.

The order matters: an envelope refers to offsets that exist. A crash between the two leaves a
body that nothing refers to and that retention removes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ingress.event import Event
from ingress.tracing import event_headers
from streams.serde.codec import ENVELOPE
from streams.serde.ids import partition_for
from streams.serde.records import Envelope, PayloadRef
from streams.vault import CHUNK_BYTES, Vault, chunk_purpose

PAYLOADS = "payloads"
RECEIVED = "events.received"


class Sender(Protocol):
    """Where records go; `streams.kafka.AwaitedProducer`, or its twin in memory."""

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        """The record's offset, once all in-sync replicas have it; else `KafkaUnavailable`."""


class Intake:
    """Writes events; `partitions` is the number that topics keyed by tenant have."""

    def __init__(self, sender: Sender, vault: Vault, partitions: int) -> None:
        self._sender = sender
        self._vault = vault
        self._partitions = partitions

    async def store(self, event: Event) -> None:
        """Return once every record of the event is acknowledged.

        Raises:
            KafkaUnavailable: one was not; the event may still have been written.
        """
        ref = await self.store_body(event.tenant_id, event.event_id, event.body)
        await self._sender.send(
            RECEIVED, event.tenant_id.encode(), ENVELOPE.encode(_envelope(event, ref)),
            partition=ref.partition, headers=event_headers(event),
        )  # fmt: skip

    async def store_body(self, tenant_id: str, event_id: str, body: bytes) -> PayloadRef:
        """Seal a body and return where it lies, once every chunk is acknowledged.

        Raises:
            KafkaUnavailable: one was not.
        """
        partition = partition_for(tenant_id, self._partitions)
        offsets = await self._store_chunks(tenant_id, event_id, body, partition)
        return PayloadRef(partition, offsets, len(body), self._vault.key_id)

    async def _store_chunks(
        self, tenant_id: str, event_id: str, body: bytes, partition: int
    ) -> tuple[int, ...]:
        key = tenant_id.encode()
        sealed = [
            self._vault.seal(tenant_id, chunk_purpose(event_id, index), chunk)
            for index, chunk in enumerate(_chunks(body))
        ]
        if len(sealed) == 1:
            return (await self._sender.send(PAYLOADS, key, sealed[0], partition=partition),)
        sends = (self._sender.send(PAYLOADS, key, part, partition=partition) for part in sealed)
        return tuple(await asyncio.gather(*sends))


def _chunks(body: bytes) -> list[bytes]:
    return [body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES)]


def _envelope(event: Event, ref: PayloadRef) -> Envelope:
    fields = event.normalized
    return Envelope(
        fingerprint=event.fingerprint,
        event_id=event.event_id,
        source=event.source,
        tenant_id=event.tenant_id,
        event_type=fields.event_type,
        occurred_at=fields.occurred_at,
        received_at=event.received_at,
        payload_hash=fields.payload_hash,
        dedup_key=fields.dedup_key,
        subject=fields.subject,
        content_type=event.content_type,
        delivery_id=fields.delivery_id,
        request_id=event.request_id,
        payload_ref=ref,
        attributes=fields.attributes,
        priority=event.priority,
        callback_url=event.callback_url,
    )
