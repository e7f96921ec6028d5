"""One process of a group of readers: it reads its partitions, and hands their events to a sink."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import cast

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from streams.errors import KafkaUnavailable, PoisonRecord, TidegateError
from streams.event_reader.handling import Handle, Part
from streams.event_reader.selection import Selection
from streams.event_reader.silence import Silence
from streams.event_reader.sinks import Moved, Sink
from streams.event_reader.span import EVENTS
from streams.kafka.clients import consumer_config
from streams.kafka.failures import DENIED, GONE, UNREADABLE, damage
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope
from streams.settings import Settings

log = structlog.get_logger(__name__)

_BATCH, _WAIT_SECONDS = 500, 0.5
_ANSWER_SECONDS = 2.0


class EventsPurged(TidegateError):
    """Kafka no longer has the events from which a reader has to go on."""


class Reader:
    """One process of a group: the partitions that it has, and the stored offset of each."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        into: Sink,
        selection: Selection,
        skip_purged: bool,
        skip_unreadable: bool,
        until_end: bool,
    ) -> None:
        self._topic = settings.topic_prefix + EVENTS
        self._group = group
        self._into = into
        self._selection = selection
        self._skip_unreadable = skip_unreadable
        self._until_end = until_end
        self._client = settings.client()
        self._silence = Silence(self._topic)
        reset = "earliest" if skip_purged else "error"
        self._consumer = Consumer(
            consumer_config(
                settings,
                group,
                **{
                    "auto.offset.reset": reset,
                    "enable.partition.eof": True,
                    "error_cb": self._silence.heard,
                },
            )
        )
        self._stored: dict[int, int | None] = {}
        self._at_end: set[int] = set()
        self._ends: dict[int, int] = {}
        self._assigned = False
        self._handled = 0

    def run(self, handle: Handle, stop: threading.Event) -> int:
        self._into.open(self._group, self._topic, self._client)
        with closing(self._into), closing(self._consumer) as consumer:
            consumer.subscribe([self._topic], on_assign=self._begin, on_revoke=self._end)
            while not stop.is_set():
                self._take(consumer.consume(_BATCH, _WAIT_SECONDS), handle)
                self._silence.ask(consumer)
                if self._until_end and self._assigned and all(map(self._is_done, self._stored)):
                    break
        return self._handled

    def _is_done(self, number: int) -> bool:
        """Whether what a partition had at the start is handled.

        A partition to which events keep coming has no end at which it stands still.
        """
        if number in self._at_end:
            return True
        stored, end = self._stored[number], self._end_of(number)
        return stored is not None and end is not None and stored >= end

    def _begin(self, consumer: Consumer, places: Sequence[TopicPartition]) -> None:
        """Read each partition from where the sink ends."""
        self._stored = self._into.stored(consumer, [p.partition for p in places])
        self._at_end, self._assigned = set(), True
        consumer.assign([_from(self._topic, *place) for place in self._stored.items()])

    def _end_of(self, number: int) -> int | None:
        """Where a partition ended when this was first asked.

        None, and asked again, if Kafka does not tell, or tells an end before the stored offset: a
        new leader may not know better yet, or the topic was made again (`_require_behind`).
        """
        if number not in self._ends:
            place = TopicPartition(self._topic, number)
            try:
                found = self._consumer.get_watermark_offsets(place, _ANSWER_SECONDS)
            except KafkaException as error:
                self._silence.tell("end", error.args[0], number)
                return None
            self._silence.given("end", number)
            if found is not None and found[1] >= (self._stored[number] or 0):
                self._ends[number] = found[1]
        return self._ends.get(number)

    def _end(self, consumer: Consumer, _: Sequence[TopicPartition]) -> None:
        self._stored, self._assigned = {}, False
        consumer.unassign()

    def _take(self, messages: Sequence[Message], handle: Handle) -> None:
        """Handle what came, up to a damaged batch, which ends this."""
        damages = list(map(damage, messages))
        damaged = next(filter(None, damages), None)
        sound = messages[: damages.index(damaged)] if damaged else messages
        for number, part in self._parts(sound).items():
            # An empty partition gets its offset 0, too: without one, no purged event is missed.
            if number in self._stored and _behind(part[-1]) != self._stored[number]:
                self._require_behind(part[-1], number)
                self._write(number, part, handle)
        if damaged is not None:
            raise damaged

    def _parts(self, messages: Sequence[Message]) -> Mapping[int, Sequence[Message]]:
        """The records of each partition, and its end if it was reached."""
        parts = defaultdict[int, list[Message]](list)
        for message in messages:
            number, error = message.partition() or 0, message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._refuse(error, message.partition())
                continue
            self._silence.given("records", number)
            parts[number].append(message)
            if error is None:
                self._at_end.discard(number)
            else:
                self._at_end.add(number)
        return parts

    def _require_behind(self, message: Message, number: int) -> None:
        """Check that records come from behind the stored offset, not from another topic's start."""
        stored = self._stored[number] or 0
        if _behind(message) < stored:
            raise EventsPurged(
                f"{self._topic}, partition {number}: it ends before offset {stored}, from which "
                f"group {self._group!r} goes on: the topic was made again, or has lost events. To "
                "read all that it has, give the reader another group"
            )

    def _write(self, number: int, messages: Sequence[Message], handle: Handle) -> None:
        """Handle a part, up to a record that cannot be read, which ends this.

        Its last message may be the end of the partition, behind the transaction's marker. An offset
        before the marker would be purged with it, and a reader that has missed nothing would end
        with `EventsPurged`.
        """
        events, behind, poison = list[tuple[int, Envelope]](), None, None
        for message in messages:
            try:
                event = self._event(message)
            except PoisonRecord as error:
                poison = error
                break
            behind = _behind(message)
            if event is not None:
                events.append((behind, event))
        whole = behind is None or self._handled_all(number, behind, events, handle)
        if poison is not None and whole:
            raise poison

    def _handled_all(
        self, number: int, behind: int, events: list[tuple[int, Envelope]], handle: Handle
    ) -> bool:
        """Whether a part was handled to its end; else it is read on from another offset."""
        part = Part(number, self._stored[number], behind, tuple(events))
        try:
            reached = self._into.write(self._consumer, part, handle)
        except Moved:
            log.info("another process has written on: its offset is taken over", partition=number)
            self._go_on(number, self._into.stored(self._consumer, [number])[number])
            return False
        self._handled += sum(after <= reached for after, _ in events)
        self._stored[number] = reached
        if reached < part.next:
            self._go_on(number, reached)
            return False
        return True

    def _go_on(self, number: int, stored: int | None) -> None:
        """Read on from another offset, unless the partition is being taken from this process.

        Then nothing more of it is handled: what comes until it is gone lies behind a gap.
        """
        self._at_end.discard(number)
        try:
            self._consumer.seek(_from(self._topic, number, stored))
            self._stored[number] = stored
        except KafkaException:
            del self._stored[number]

    def _event(self, message: Message) -> Envelope | None:
        if message.error() is not None:
            return None
        try:
            event = ENVELOPE.decode(message.value())
        except PoisonRecord as error:
            where = f"partition {message.partition()}, offset {message.offset()}"
            if not self._skip_unreadable:
                raise PoisonRecord(
                    "unreadable",
                    f"{self._topic}, {where}: {error.detail}: install the version of Tidegate that "
                    "wrote it, or a later one, or leave such records out with skip_unreadable",
                ) from error
            log.warning("a record is left out: it cannot be read", at=where, error=error.detail)
            return None
        return event if self._selection.has(event, message.timestamp()[1]) else None

    def _refuse(self, error: KafkaError, number: int | None) -> None:
        if error.code() in GONE:
            stored = self._stored.get(number or 0)
            raise EventsPurged(
                f"{self._topic}, partition {number}: offset {stored}, from which group "
                f"{self._group!r} goes on, is no longer there: the retention has passed. Go on "
                "with the oldest event that there is with skip_purged"
            )
        if error.fatal() or error.code() in UNREADABLE | DENIED:
            raise KafkaUnavailable(f"{self._topic}: {error.str()}")
        self._silence.tell("records", error, number)


def _behind(message: Message) -> int:
    """The offset behind a record; the end of a partition is its own."""
    return cast(int, message.offset()) + (message.error() is None)


def _from(topic: str, partition: int, stored: int | None) -> TopicPartition:
    """Where to read on; a reader without offsets begins with the oldest event."""
    return TopicPartition(topic, partition, OFFSET_BEGINNING if stored is None else stored)
