"""Writes the dead letters of records of `tenants` that an ingress cannot use."""

from __future__ import annotations

import asyncio
from collections import deque

import structlog
from confluent_kafka import Message

from ingress.receive.sender import Sender
from streams import dead_letter
from streams.errors import KafkaUnavailable, PoisonRecord
from streams.process.wall_clock import wall_ms
from streams.serde.ids import partition_for
from streams.serde.keys import SEPARATOR
from streams.serde.records import DeadLetter
from streams.tenants.follower import TOPIC

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 5.0
_TENANT_CHARS = 256


class DeadLetters:
    """Keeps each letter until it is acknowledged; `refuse` is safe in threads, the rest is for one
    event loop.

    Letters that are still kept when the process ends are made again by the next one, which reads
    `tenants` from its beginning: they have the same ids.
    """

    def __init__(self, sender: Sender, partitions: int) -> None:
        self._sender = sender
        self._partitions = partitions
        self._kept: deque[DeadLetter] = deque()

    def refuse(self, message: Message, error: PoisonRecord) -> None:
        """Make the letter of a record that cannot be used."""
        letter = _letter(message, error)
        log.error(
            "a record of tenants cannot be used: it goes to the dead letters",
            id=letter.id, reason=letter.reason, detail=letter.detail,
        )  # fmt: skip
        self._kept.append(letter)

    async def run(self) -> None:
        """Write letters as they come, until cancelled."""
        while True:
            await self.flush()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def flush(self) -> None:
        """Write the letters; the first one that is not acknowledged stays, and those behind it."""
        while self._kept:
            letter = self._kept[0]
            home = partition_for(letter.tenant_id, self._partitions)
            key, value = dead_letter.encoded(letter)
            try:
                await self._sender.send(dead_letter.TOPIC, key, value, partition=home)
            except KafkaUnavailable as error:
                log.warning("a dead letter is not acknowledged", id=letter.id, reason=str(error))
                return
            self._kept.popleft()


def _letter(message: Message, error: PoisonRecord) -> DeadLetter:
    key, value = message.key() or b"", message.value()
    return dead_letter.of_record(
        "ingress", TOPIC, message.partition() or 0, message.offset() or 0, None,
        message.key(), value, reason=error.reason, detail=error.detail, at=wall_ms(),
        tenant_id=key.split(SEPARATOR)[0].decode("utf-8", "replace")[:_TENANT_CHARS],
    )  # fmt: skip
