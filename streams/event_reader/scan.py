"""Reads the records of some spans once, as committed, and keeps those that are selected."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Message

from streams.errors import KafkaUnavailable, PoisonRecord
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS, Span
from streams.kafka.record_headers import headers_of
from streams.kafka.tail import Tail, Unreadable
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
        with Tail(self._settings, "events-reader") as tail:
            tail.begin({(EVENTS, p): span.first for p, span in self._left.items()})
            silent = 0.0
            while self._left:
                began, before = time.monotonic(), self.progress.passed
                found = tuple(self._take(read_on(tail)))
                reached = self._pass(tail)
                batch = Batch(found, reached, tuple(self._unreadable))
                self._unreadable.clear()
                moved = self.progress.passed > before
                silent = 0.0 if moved else silent + time.monotonic() - began
                yield batch
                if silent > _PATIENCE_SECONDS:
                    name = self._settings.topic_prefix + EVENTS
                    raise KafkaUnavailable(
                        f"{name}: partitions {sorted(self._left)} answer no longer: see whether "
                        "each has a leader, and type the command again"
                    )

    def _take(self, messages: list[Message]) -> Iterator[Found]:
        """Yield selected events that lie in their span."""
        for message in messages:
            if (message.offset() or 0) < self._left[message.partition() or 0].end:
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

    def _pass(self, tail: Tail) -> dict[int, int]:
        """Return how far each partition is read, and stop reading those that reached their end."""
        passed, reached = 0, dict[int, int]()
        for place, position in tuple(tail.positions().items()):
            span = self._left[place[1]]
            at = reached[place[1]] = min(max(position, span.first), span.end)
            if at < span.end:
                passed += at - span.first
                continue
            tail.drop(place)
            del self._left[place[1]]
            self._done += span.end - span.first
        self.progress.passed = self._done + passed
        self._told(self.progress)
        return reached


def read_on(tail: Tail) -> list[Message]:
    """The next records.

    Raises:
        KafkaUnavailable: what comes next was purged or is damaged, or must not be read.
    """
    try:
        return tail.read(_BATCH, _WAIT_SECONDS)
    except Unreadable as error:
        if error.fault.gone:
            raise KafkaUnavailable(f"{error}: type the command again") from error
        raise
