"""Writes the records of bulk acts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from streams.bulk.act import KINDS, TOPIC, name_of
from streams.kafka.clients import AwaitedProducer
from streams.kafka.fenced_write import OutgoingRecord
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.bulk_records import BulkBody, BulkItem, BulkJoined, BulkRecord
from streams.serde.codec import BULK

_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Journal:
    """Writes for one author; `partitions` is the number of those of `bulk`."""

    producer: AwaitedProducer
    partitions: int
    by: str

    async def write(self, bulk_id: str, bodies: Sequence[BulkBody]) -> None:
        """Return once all are durable.

        Raises:
            KafkaUnavailable: one was not acknowledged; each may be written nevertheless.
        """
        for start in range(0, len(bodies), _AT_ONCE):
            batch = bodies[start : start + _AT_ONCE]
            await asyncio.gather(*(self._send(bulk_id, body) for body in batch))

    def record(self, bulk_id: str, body: BulkBody) -> OutgoingRecord:
        """Return the record of one body, to be written together with others."""
        match body:
            case BulkItem():
                of = name_of(body)
            case BulkJoined():
                of = self.by
            case _:
                of = ""
        key = keys.bulk_key(bulk_id, KINDS[type(body)], of)
        value = BULK.encode(BulkRecord(bulk_id, wall_ms(), self.by, body))
        return OutgoingRecord(TOPIC, key, value, home(bulk_id, self.partitions))

    async def _send(self, bulk_id: str, body: BulkBody) -> None:
        sent = self.record(bulk_id, body)
        await self.producer.send(sent.topic, sent.key, sent.value, partition=sent.partition)


def home(bulk_id: str, partitions: int) -> int:
    """Return the partition that holds all records of an act."""
    return ids.partition_for(bulk_id, partitions)
