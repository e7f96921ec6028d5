"""Makes an event durable: sealed body to `payloads`, then its envelope to `events.received`.

The order matters, because an envelope must refer to offsets that exist. A crash between the two
writes leaves a body that nothing refers to; retention removes it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial

from ingress.receive.event import Event
from ingress.receive.key_maker import KeyMaker
from ingress.receive.sender import Sender
from ingress.receive.tracing import event_headers
from streams.process.shared_room import SharedRoom
from streams.serde.codec import ENVELOPE
from streams.serde.ids import partition_for
from streams.serde.records import PayloadRef
from streams.serde.sizes import CHUNK_BYTES
from streams.tracing.spans import continuing, sending
from streams.vault.data_key import DataKey

PAYLOADS = "payloads"
WINDOW_BYTES = 16 * 1024 * 1024
"""The limit counts the bytes of plain chunks being sent. Memory holds about three copies of each
meanwhile: the sealed one, one in the producer's queue, and one in the request on the wire."""
_LANES = 4
"""One partition gets at most one part in this many of the window, so that one that Kafka does not
acknowledge leaves room for the others."""

RECEIVED = "events.received"
_CHUNKS_AT_ONCE = 2
"""The limit for one body, so that a large body leaves room in the window for small ones."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The partition of a body, and the key under which it is sealed."""

    key: DataKey
    event_id: str
    partition: int


class EventWriter:
    """Writes events; `partitions` is the number that topics keyed by tenant have."""

    def __init__(
        self, sender: Sender, keys: KeyMaker, partitions: int, window_bytes: int = WINDOW_BYTES
    ) -> None:
        self._sender = sender
        self._keys = keys
        self._partitions = partitions
        self._window = SharedRoom(window_bytes)
        lane_bytes = max(CHUNK_BYTES, window_bytes // min(_LANES, partitions))
        self._lanes: defaultdict[int, SharedRoom] = defaultdict(partial(SharedRoom, lane_bytes))

    async def store(self, event: Event) -> None:
        """Return once every record of the event is acknowledged.

        Raises:
            KafkaUnavailable: a record was not acknowledged; the event may still be written.
            Erased: the event's tenant was erased meanwhile.
        """
        envelope = event.envelope
        ref = await self.store_body(envelope.tenant_id, envelope.event_id, event.body)
        with sending(RECEIVED, ref.partition):
            headers = event_headers(envelope, continuing(event.traceparent))
            await self._sender.send(
                RECEIVED,
                envelope.tenant_id.encode(),
                ENVELOPE.encode(replace(envelope, payload_ref=ref)),
                partition=ref.partition,
                headers=headers,
            )

    async def store_body(self, tenant_id: str, event_id: str, body: bytes) -> PayloadRef:
        """Seal a body and return its place on `payloads`, once every chunk is acknowledged.

        Raises:
            KafkaUnavailable: a chunk was not acknowledged.
            Erased: the tenant was erased.
        """
        key = self._keys.current(tenant_id) or await self._keys.make(tenant_id)
        place = _Place(key, event_id, partition_for(tenant_id, self._partitions))
        with sending(PAYLOADS, place.partition):
            offsets = await self._store_chunks(place, body)
        return PayloadRef(place.partition, offsets, len(body), key.key_id)

    async def _store_chunks(self, place: _Place, body: bytes) -> tuple[int, ...]:
        whole = memoryview(body)
        chunks = [whole[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
        if len(chunks) == 1:
            return (await self._store_chunk(place, 0, whole),)
        offsets: list[int] = []
        for first in range(0, len(chunks), _CHUNKS_AT_ONCE):
            group = enumerate(chunks[first : first + _CHUNKS_AT_ONCE], first)
            sends = (self._store_chunk(place, index, chunk) for index, chunk in group)
            offsets += await asyncio.gather(*sends)
        return tuple(offsets)

    async def _store_chunk(self, place: _Place, index: int, chunk: memoryview) -> int:
        lane, size = self._lanes[place.partition], len(chunk)
        tenant_id = place.key.tenant_id
        # A partition's chunks wait for each other first, ahead of the window of all.
        async with lane.of(tenant_id, size), self._window.of(tenant_id, size):
            return await self._sender.send(
                PAYLOADS,
                tenant_id.encode(),
                place.key.seal(place.event_id, index, chunk),
                partition=place.partition,
            )
