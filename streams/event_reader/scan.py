"""Reads the records of some spans once, as committed, and keeps those that are selected."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from streams.errors import KafkaUnavailable, PoisonRecord
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS, Span
from streams.kafka.clients import closing_watched, consumer_config
from streams.kafka.failures import GONE, damage
from streams.kafka.record_headers import headers_of
from streams.serde.codec import ENVELOPE
from streams.serde.headers import traceparent
from streams.serde.records import Envelope
from streams.settings import Settings

_BATCH = 2_000
_WAIT_SECONDS = 0.2
_PATIENCE_SECONDS = 30.0
MOST_TYPES = 1_000
"""Senders name the types, and may name any number of them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A selected event, its place, the broker's time in milliseconds, and its record."""

    partition: int
    offset: int
    at: int
    event: Envelope
    record: bytes
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read gave: selected events, and the first offset that is not read yet, by partition.

    Aborted records and transaction markers count as read. A partition that is read to the end of
    its span is at that end. `unreadable` are the places of records that this version cannot read:
    partition and offset.
    """

    found: tuple[Found, ...]
    next: Mapping[int, int]
    unreadable: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Progress:
    """How far a scan is: offsets passed of all.

    `unreadable` are records that this version cannot read, `oldest_at` is the time of the oldest
    record that was read, selected or not, in milliseconds, and `types` are the types of events of
    the selected tenant, if one is selected; the first `MOST_TYPES` of them.
    """

    passed: int
    total: int
    unreadable: int = 0
    oldest_at: int | None = None
    types: set[str] = field(default_factory=set)


def found_in(message: Message) -> Found:
    """The event of a record.

    Raises:
        PoisonRecord: this version cannot read it.
    """
    return Found(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        ENVELOPE.decode(message.value()),
        message.value() or b"",
        traceparent(headers_of(message)),
    )


class Scan:
    """One pass over spans of `events`.

    `starts` is the first offset of each partition, also of one of which nothing is to be read.
    """

    def __init__(
        self,
        settings: Settings,
        spans: Mapping[int, Span],
        selection: Selection,
        told: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.progress = Progress(0, sum(span.end - span.first for span in spans.values()))
        self.starts = {number: span.first for number, span in spans.items()}
        self._settings = settings
        self._selection = selection
        self._told = told
        self._left = {number: span for number, span in spans.items() if span.first < span.end}
        self._done = 0
        self._unreadable: list[tuple[int, int]] = []
        self._damaged: dict[int, tuple[int, KafkaUnavailable]] = {}

    def __iter__(self) -> Iterator[Found]:
        """Yield what is selected, in each partition's order.

        Raises:
            KafkaUnavailable: nothing came for 30 seconds, or what was to be read was purged or is
                damaged.
        """
        for batch in self.batches():
            yield from batch.found

    def batches(self) -> Generator[Batch, None, None]:
        """Yield what is selected as it is read; a batch may be empty.

        Raises:
            KafkaUnavailable: nothing came for 30 seconds, or what was to be read was purged or is
                damaged.
        """
        name = self._settings.topic_prefix + EVENTS
        config = consumer_config(
            self._settings,
            "events-reader",
            **{
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            },
        )
        with closing_watched(Consumer(config)) as consumer:
            places = [TopicPartition(name, p, span.first) for p, span in self._left.items()]
            consumer.assign(places)
            silent = 0.0
            while self._left:
                began, before = time.monotonic(), self.progress.passed
                found = tuple(self._take(consumer.consume(_BATCH, _WAIT_SECONDS)))
                reached = self._pass(consumer, name)
                batch = Batch(found, reached, tuple(self._unreadable))
                self._unreadable.clear()
                moved = self.progress.passed > before
                silent = 0.0 if moved else silent + time.monotonic() - began
                yield batch
                for number in self._damaged.keys() & self._left.keys():
                    raise self._damaged[number][1]
                if silent > _PATIENCE_SECONDS:
                    raise KafkaUnavailable(
                        f"{name}: partitions {sorted(self._left)} answer no longer: see whether "
                        "each has a leader, and type the command again"
                    )

    def _take(self, messages: list[Message]) -> Iterator[Found]:
        """Yield selected events; in each partition, only those before a damaged batch."""
        for message in messages:
            number, error = message.partition() or 0, message.error()
            if damaged := damage(message):
                self._damaged.setdefault(number, (message.offset() or 0, damaged))
            span = self._left.get(number)
            if span is None or number in self._damaged:
                continue
            if error is not None and error.code() in GONE:
                raise KafkaUnavailable(
                    f"{message.topic()}, partition {message.partition()}: records were purged "
                    "before they were read: the retention has passed. Type the command again"
                )
            if error is not None or (message.offset() or 0) >= span.end:
                continue
            found = self._found(message)
            if found is not None:
                yield found

    def _found(self, message: Message) -> Found | None:
        try:
            found = found_in(message)
        except PoisonRecord:
            self.progress.unreadable += 1
            self._unreadable.append((message.partition() or 0, message.offset() or 0))
            return None
        seen = self.progress
        seen.oldest_at = found.at if seen.oldest_at is None else min(seen.oldest_at, found.at)
        theirs = self._selection.tenant_id in (None, found.event.tenant_id)
        if theirs and len(seen.types) < MOST_TYPES:
            seen.types.add(found.event.event_type)
        return found if self._selection.has(found.event, found.at) else None

    def _pass(self, consumer: Consumer, name: str) -> dict[int, int]:
        """Note how far each partition is read, and return it."""
        places = [TopicPartition(name, number) for number in self._left]
        passed, reached = 0, dict[int, int]()
        for place in consumer.position(places):
            span = self._left[place.partition]
            damaged, _ = self._damaged.get(place.partition, (place.offset, None))
            position = min(place.offset, damaged)  # the client may have gone on behind it
            at = reached[place.partition] = min(max(position, span.first), span.end)
            if at >= span.end:
                del self._left[place.partition]
                self._done += span.end - span.first
            else:
                passed += at - span.first
        self.progress.passed = self._done + passed
        self._told(self.progress)
        return reached
