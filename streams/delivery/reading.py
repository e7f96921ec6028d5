"""One part of a partition while it is read again: what was asked, and what is read so far."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from streams.delivery.history import Part
from streams.kafka.offsets import Place
from streams.kafka.record_headers import headers_of
from streams.runtime.processor import Record

MOST_RECORDS, _MOST_BYTES = 1_000, 4 * 1024 * 1024
"""How much one part holds; its last record may exceed the bytes."""


@dataclass(slots=True, eq=False)
class Reading:
    """One part that the stage asked for; `next` is the first offset that was not read."""

    topic: str
    partition: int
    since: int
    offset: int
    end: int | None = None
    questions: list[Future[Any]] = field(default_factory=list)
    begin_at: float = 0.0
    next: int | None = None
    records: list[Record] = field(default_factory=list)
    size: int = 0
    part: Part | None = None

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    def asks(self, topic: str, since: int, offset: int) -> bool:
        return (self.topic, self.since, self.offset) == (topic, since, offset)

    def take(self, record: Record) -> None:
        self.records.append(record)
        self.size += len(record.value or b"")
        self.next = record.offset + 1

    @property
    def complete(self) -> bool:
        return self.at_end or len(self.records) >= MOST_RECORDS or self.size >= _MOST_BYTES

    @property
    def at_end(self) -> bool:
        return self.next is not None and self.end is not None and self.next >= self.end


def record_of(topic: str, message: Message) -> Record:
    """A message as the processor sees it."""
    place = message.partition() or 0, message.offset() or 0
    parts: Any = message.timestamp()[1], message.key(), message.value(), headers_of(message)
    return Record(topic, *place, *parts)
