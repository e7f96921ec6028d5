"""Reads the topic `audit` itself: checks that its chains are whole, and follows its entries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from streams.audit.chain import Verifier
from streams.audit.entries import TOPIC
from streams.errors import DecodeError, KafkaUnavailable
from streams.kafka.tail import PEOPLES_SECONDS, Tail
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import AuditEntry
from streams.settings import Settings

_BATCH, _WAIT_SECONDS = 2_000, 0.5
_BROKER_SECONDS, _PATIENCE_SECONDS = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A place of the topic where a chain is broken; `id` is None for a record that is no entry."""

    partition: int
    offset: int
    id: str | None
    why: str

    def json(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "offset": self.offset,
            "id": self.id,
            "why": self.why,
        }


@dataclass
class Check:
    """What was read so far: how many entries, and where their chains are broken."""

    entries: int = 0
    broken: list[Fault] = field(default_factory=list)
    _verifier: Verifier = field(default_factory=Verifier)

    def take(self, partition: int, offset: int, value: bytes | None) -> None:
        """Check the next record of a partition."""
        try:
            entry = AUDIT_ENTRY.decode(value)
        except DecodeError as error:
            self.broken.append(Fault(partition, offset, None, f"no entry: {error}"))
            return
        self.entries += 1
        found = self._verifier.take(entry)
        if found is not None:
            self.broken.append(Fault(partition, offset, entry.id, found.why))

    def json(self) -> dict[str, Any]:
        """The number of entries, each chain's newest one, and every place where one is broken."""
        heads = sorted(self._verifier.heads.values(), key=lambda head: head.chain)
        return {
            "entries": self.entries,
            "chains": [{"chain": h.chain, "seq": h.seq, "hash": h.hash.hex()} for h in heads],
            "broken": [fault.json() for fault in self.broken],
        }


def checked(settings: Settings, partitions: int) -> Check:
    """Check all entries that the topic holds now, as committed.

    Raises:
        KafkaUnavailable: nothing came for 30 seconds, or a partition cannot be read.
        KafkaException: no broker answers.
    """
    check, heard = Check(), time.monotonic()
    with Tail(settings, "events-reader") as tail:
        tail.begin_at_start([(TOPIC, number) for number in range(partitions)], _BROKER_SECONDS)
        while not tail.caught_up:
            messages = tail.read(_BATCH, _WAIT_SECONDS)
            _take(check, messages)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_SECONDS:
                raise KafkaUnavailable(f"{TOPIC} answers no longer: type the command again")
    return check


def followed(settings: Settings, partitions: int) -> Iterator[AuditEntry]:
    """Yield entries as they come, as committed; records that are none are left out.

    Raises:
        KafkaUnavailable: a partition cannot be read.
        KafkaException: no broker answers at first.
    """
    with Tail(settings, "events-reader", rest=PEOPLES_SECONDS) as tail:
        tail.begin_at_end([(TOPIC, number) for number in range(partitions)], _BROKER_SECONDS)
        while True:
            for message in tail.read(_BATCH, _WAIT_SECONDS):
                with suppress(DecodeError):
                    yield AUDIT_ENTRY.decode(message.value())


def _take(check: Check, messages: Iterable[Message]) -> None:
    for message in messages:
        check.take(message.partition() or 0, message.offset() or 0, message.value())
