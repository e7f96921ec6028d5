"""Makes an event durable: sealed body to `payloads`, then its envelope to `events.received`.

The order matters: an envelope refers to offsets that exist. A crash between the two leaves a
body that nothing refers to and that retention removes.
"""

from __future__ import annotations

import asyncio

from ingress.event import Event
from ingress.key_maker import KeyMaker
from ingress.sender import Sender
from ingress.tracing import event_headers
from ingress.window import Window
from streams.data_key import CHUNK_BYTES, DataKey
from streams.serde.codec import ENVELOPE
from streams.serde.ids import partition_for
from streams.serde.records import Envelope, PayloadRef

PAYLOADS = "payloads"
RECEIVED = "events.received"
_CHUNKS_AT_ONCE = 2
"""Of one body: a large one must leave room in the window for everybody's small ones."""


class Intake:
    """Writes events; `partitions` is the number that topics keyed by tenant have."""

    def __init__(
        self, sender: Sender, keys: KeyMaker, partitions: int, window: Window | None = None
    ) -> None:
        self._sender = sender
        self._keys = keys
        self._partitions = partitions
        self._window = window or Window()

    async def store(self, event: Event) -> None:
        """Return once every record of the event is acknowledged.

        Raises:
            KafkaUnavailable: one was not; the event may still have been written.
            Erased: its tenant was erased meanwhile.
        """
        key = self._keys.current(event.tenant_id) or await self._keys.make(event.tenant_id)
        partition = partition_for(event.tenant_id, self._partitions)
        offsets = await self._store_body(event, key, partition)
        ref = PayloadRef(partition, offsets, len(event.body), key.key_id)
        await self._sender.send(
            RECEIVED, event.tenant_id.encode(), ENVELOPE.encode(_envelope(event, ref)),
            partition=partition, headers=event_headers(event),
        )  # fmt: skip

    async def _store_body(self, event: Event, key: DataKey, partition: int) -> tuple[int, ...]:
        body = memoryview(event.body)
        chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
        if len(chunks) == 1:
            return (await self._store_chunk(event, key, partition, 0, body),)
        offsets: list[int] = []
        for first in range(0, len(chunks), _CHUNKS_AT_ONCE):
            group = enumerate(chunks[first : first + _CHUNKS_AT_ONCE], first)
            sends = (self._store_chunk(event, key, partition, i, chunk) for i, chunk in group)
            offsets += await asyncio.gather(*sends)
        return tuple(offsets)

    async def _store_chunk(
        self, event: Event, key: DataKey, partition: int, index: int, chunk: memoryview
    ) -> int:
        size = len(chunk)
        if not self._window.try_enter(size):
            await self._window.enter(size)
        try:
            return await self._sender.send(
                PAYLOADS, event.tenant_id.encode(), key.seal(event.event_id, index, chunk),
                partition=partition,
            )  # fmt: skip
        finally:
            self._window.leave(size)


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
    )
