"""Writes the dead letters of records of `tenants` that an ingress cannot use."""

from __future__ import annotations

import asyncio
import threading

import structlog
from confluent_kafka import Message

from ingress.receive.sender import Sender
from streams import dead_letter
from streams.errors import KafkaUnavailable, PoisonRecord, RecordTooLarge
from streams.process.wall_clock import wall_ms
from streams.serde.ids import partition_for
from streams.serde.keys import SEPARATOR
from streams.serde.records import DeadLetter
from streams.tenants.follower import TOPIC

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 5.0
_AT_ONCE = 100
_OVERHEAD_BYTES = 5_000
"""Its fields beside key and value, of which the detail alone may have 2 KiB, and their objects."""
_MOST_BYTES = 64 * 1024 * 1024
_TENANT_CHARS = 256


class DeadLetters:
    """Keeps each letter until it is acknowledged; `refuse` is called by the thread that follows
    `tenants`, the rest by the event loop.

    Letters beyond 64 MiB are not kept. Those, and letters that are still kept when the process
    ends, are made again under the same ids by the next process, which reads `tenants` from its
    beginning. A letter can thus be written twice under one id.
    """

    def __init__(self, sender: Sender, partitions: int) -> None:
        self._sender = sender
        self._partitions = partitions
        self._kept: dict[str, DeadLetter] = {}
        self._bytes = 0
        self._changing = threading.Lock()

    def refuse(self, message: Message, error: PoisonRecord) -> None:
        """Make the letter of a record that cannot be used."""
        letter = _letter(message, error)
        log.error(
            "a record of tenants cannot be used: it goes to the dead letters",
            id=letter.id,
            reason=letter.reason,
            detail=letter.detail,
        )
        with self._changing:
            fits = letter.id in self._kept or self._bytes <= _MOST_BYTES
            if letter.id not in self._kept and fits:
                self._kept[letter.id] = letter
                self._bytes += _size(letter)
        if not fits:
            log.error("too many dead letters wait: restart the ingress to make it", id=letter.id)

    async def run(self) -> None:
        """Write letters as they come, until cancelled."""
        while True:
            await self.flush()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def flush(self) -> None:
        """Write the letters, many at once; one that is not acknowledged is kept.

        A letter that the broker refuses for its size is sent alone, then without its record. If it
        is refused even then, it is given up, and the log says so.
        """
        with self._changing:
            waiting = list(self._kept.values())
        for first in range(0, len(waiting), _AT_ONCE):
            together = waiting[first : first + _AT_ONCE]
            settled = await asyncio.gather(*map(self._write, together))
            for letter, is_settled in zip(together, settled, strict=True):
                if not is_settled:
                    await self._write_alone(letter)

    async def _write_alone(self, letter: DeadLetter) -> None:
        if await self._write(letter) or await self._write(dead_letter.shortened(letter)):
            return
        log.error(
            "the broker refuses a dead letter for its size: mend the topic dlq, as `tidegate "
            "topology plan` says, and restart the ingress to make the letter again",
            id=letter.id,
        )
        self._forget(letter)

    async def _write(self, letter: DeadLetter) -> bool:
        """Send a letter once; returns False if the broker refuses it for its size."""
        home = partition_for(letter.tenant_id, self._partitions)
        key, value = dead_letter.encoded(letter)
        try:
            await self._sender.send(dead_letter.TOPIC, key, value, partition=home)
        except RecordTooLarge:
            return False
        except KafkaUnavailable as error:
            log.warning("a dead letter is not acknowledged", id=letter.id, reason=str(error))
        else:
            self._forget(letter)
        return True

    def _forget(self, letter: DeadLetter) -> None:
        with self._changing:
            self._bytes -= _size(self._kept.pop(letter.id))


def _size(letter: DeadLetter) -> int:
    return _OVERHEAD_BYTES + len(letter.key or b"") + len(letter.value or b"")


def _letter(message: Message, error: PoisonRecord) -> DeadLetter:
    key, value = message.key() or b"", message.value()
    return dead_letter.of_record(
        "ingress",
        TOPIC,
        message.partition() or 0,
        message.offset() or 0,
        None,
        message.key(),
        value,
        reason=error.reason,
        detail=error.detail,
        at=wall_ms(),
        tenant_id=key.split(SEPARATOR)[0].decode("utf-8", "replace")[:_TENANT_CHARS],
    )
