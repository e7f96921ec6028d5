"""Follows partitions from given offsets on, as committed and without a consumer group.

Whoever reads a topic outside of the stage runtime does so by a `Tail`: this alone knows which of
Kafka's errors pass by themselves, and that nothing may be skipped because of the others.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Partition

from streams.errors import KafkaUnavailable
from streams.kafka.clients import consumer_config
from streams.kafka.failures import DAMAGED, DENIED, GONE, UNREADABLE, Outage, damage, is_fatal
from streams.kafka.offsets import Place
from streams.kafka.rest import Rest
from streams.process.standstill import Standstill
from streams.settings import Settings

PATIENT: dict[str, Any] = {"fetch.wait.max.ms": 2_000, "socket.timeout.ms": 6_000}
"""For a tail of quiet topics whose partitions are all begun together: the broker answers when there
is a record, or after this time. A partition that is begun later would wait for that answer."""
PEOPLES_SECONDS = 0.25
"""How long a tail for people rests after records came, so that it asks a few times a second and not
once for each record."""
_AGAIN_SECONDS = 1.0
_LATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a partition cannot be read on."""

    place: Place
    cause: KafkaError
    text: str
    noted_at: float

    @property
    def gone(self) -> bool:
        """Whether the log lacks the next offset: it was purged, or the topic was made again."""
        return self.cause.code() in GONE

    @property
    def damaged(self) -> bool:
        """Whether the broker gives a damaged batch."""
        return self.cause.code() in DAMAGED


class Unreadable(KafkaUnavailable):
    """A partition cannot be read on: it is damaged, purged, missing, or not for this user."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Tail:
    """A reader of some partitions; one thread uses it.

    `next` has, of each partition that it reads, the first offset that was not given. `group` is the
    process's own, which is not joined (see `consumer_config`). `outage` learns when no broker
    answers, and when records come. With `tell`, a partition that cannot be read is told once and
    tried again each second; without, `read` raises it. Once it is at the ends, it reads nothing for
    `rest` seconds after records came, unless somebody is in a `hurry`.
    """

    def __init__(
        self,
        settings: Settings,
        group: str,
        *,
        tell: Callable[[Fault], object] | None = None,
        outage: Outage | None = None,
        rest: float = 0.0,
        hurry: threading.Event | None = None,
        **config: Any,
    ) -> None:
        self._prefix = settings.topic_prefix
        self._tell = tell
        self._outage = outage
        own = {"auto.offset.reset": "error", "enable.partition.eof": True, **config}
        if outage is not None:
            # A bound method would keep the clients of this until a garbage collection.
            own["error_cb"] = partial(_noticed, outage)
        self._consumer = Consumer(consumer_config(settings, group, **own))
        self.next: dict[Place, int] = {}
        self._unread = set[Place]()
        self._faults = dict[Place, Fault]()
        self._told = set[Place]()
        self._damaged_at = dict[Place, float]()
        self._ends = dict[Place, int]()
        self._names = dict[str, str]()
        self._rest = Rest(self._consumer, rest, hurry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer; the process ends itself if that never returns."""
        with Standstill().watched():
            self._consumer.close()

    def widths(self, seconds: float) -> dict[str, int]:
        """How many partitions each of our topics has that the user may see.

        Raises:
            KafkaException: no broker answers in time.
        """
        topics = self._consumer.list_topics(timeout=seconds).topics
        ours = (name for name in topics if name.startswith(self._prefix))
        return {self._logical(name): len(topics[name].partitions) for name in ours}

    def begin(self, starts: Mapping[Place, int]) -> None:
        """Read these partitions, too, each from an offset or from `OFFSET_BEGINNING` on."""
        self._consumer.incremental_assign([self._partition(p, at) for p, at in starts.items()])
        self._names |= {self._prefix + topic: topic for topic, _ in starts}
        self.next |= starts
        self._unread |= starts.keys()

    def begin_at_start(self, places: Iterable[Place], seconds: float) -> None:
        """Read these partitions from their oldest records on.

        It is caught up once it is at their present ends: the broker tells the end of a quiet
        partition only after the whole time that it may wait for a record.

        Raises:
            KafkaException: the offsets are not answered in time.
        """
        ask = self._consumer.get_watermark_offsets
        spans = {place: ask(self._partition(place), seconds) for place in places}
        self._ends |= {place: end for place, (_, end) in spans.items()}
        self.begin({place: start for place, (start, _) in spans.items()})

    def begin_at_end(self, places: Iterable[Place], seconds: float) -> None:
        """Read these partitions from their present ends on, so that no later record is missed.

        Raises:
            KafkaException: the ends are not answered in time.
        """
        ask = self._consumer.get_watermark_offsets
        ends = {place: ask(self._partition(place), seconds)[1] for place in places}
        self._ends |= ends
        self.begin(ends)

    def drop(self, place: Place) -> None:
        """Read a partition no further, if it is read."""
        self._unread.discard(place)
        read = self.next.pop(place, None) is not None
        if self._faults.pop(place, None) is None and read:
            self._consumer.incremental_unassign([self._partition(place)])

    def again(self, fault: Fault) -> None:
        """Read a partition on despite a fault: at its oldest record if what comes next is gone."""
        if self._faults.pop(fault.place, None):
            at = OFFSET_BEGINNING if fault.gone else self.next[fault.place]
            self.begin({fault.place: at})

    def read(self, most: int, seconds: float) -> list[Message]:
        """The next records, about so many at most, after waiting so long for the first.

        Raises:
            Unreadable: a partition cannot be read on. What came before that was given, and so was
                what came from the other partitions. Each call raises it until `again` or `drop`.
            KafkaException: the consumer can do nothing more.
        """
        for fault in tuple(self._faults.values()):
            if self._tell is None:
                raise Unreadable(fault)
            if time.monotonic() - fault.noted_at >= _AGAIN_SECONDS:
                self.again(fault)
        if not self._rest.over(seconds):
            return []
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(most - 1, 0)]
        found = [message for message in messages if self._is_next(message)]
        if found and self._outage is not None:
            self._outage.answered()
        if found and self.caught_up:
            self._rest.after(len(found), map(self._partition, self.next.keys() - self._faults))
        return found

    @property
    def caught_up(self) -> bool:
        """Whether each partition was at its end at some time since it was begun."""
        for place in [p for p in self._unread if self.next[p] >= self._ends.get(p, math.inf)]:
            self._unread.discard(place)
        return not self._unread

    def positions(self) -> Mapping[Place, int]:
        """`next`, also past the markers that end transactions, which are no records."""
        self._pass_markers(self.next.keys() - self._faults.keys())
        return self.next

    def reached(self, ends: Mapping[Place, int]) -> bool:
        """Whether everything before these offsets was given."""
        at = self.positions()
        return all(at[place] >= end for place, end in ends.items())

    def place(self, message: Message) -> Place:
        """Logical topic and partition of a record."""
        topic = message.topic() or ""
        return self._names.get(topic, topic), message.partition() or 0

    def _is_next(self, message: Message) -> bool:
        """Whether it is a record to give; else note what it says of its partition."""
        place, offset, error = self.place(message), message.offset() or 0, message.error()
        if error is not None and is_fatal(error):
            raise KafkaException(error)
        if place not in self.next or place in self._faults:
            return False
        if error is None:
            self.next[place] = offset + 1
            if self._told:
                self._told.discard(place)
        elif error.code() == KafkaError._PARTITION_EOF:
            self.next[place] = max(self.next[place], offset)
            self._unread.discard(place)
        elif text := self._lasting(place, message, error):
            self._stop(place, offset, Fault(place, error, text, time.monotonic()))
        return error is None

    def _stop(self, place: Place, offset: int, fault: Fault) -> None:
        """Stand still: librdkafka asks for a damaged batch over and over without a pause."""
        self._pass_markers([place], offset)
        self._consumer.incremental_unassign([self._partition(place)])
        self._faults[place] = fault
        if self._tell is not None and place not in self._told:
            self._told.add(place)
            self._tell(fault)

    def _pass_markers(self, places: Iterable[Place], most: int = sys.maxsize) -> None:
        """Move to the consumer's positions; behind a damaged batch it may have gone on."""
        for at in self._consumer.position([self._partition(place) for place in places]):
            place = self._logical(at.topic), at.partition
            self.next[place] = max(self.next[place], min(at.offset, most))

    def _lasting(self, place: Place, message: Message, error: KafkaError) -> str | None:
        """What lasts of an error; None if librdkafka gets over it by itself."""
        where = f"{message.topic()}, partition {message.partition()}"
        if damaged := damage(message):
            self._damaged_at[place] = time.monotonic()
            return str(damaged)
        if error.code() in GONE and not self._is_late(place, message.offset() or 0):
            return f"{where}: offset {message.offset()} was purged, or the topic was made again"
        return f"{where}: {error.str()}" if error.code() in UNREADABLE | DENIED else None

    def _is_late(self, place: Place, offset: int) -> bool:
        """Whether a damaged batch named this offset, and its error comes late."""
        self._pass_markers([place], offset)
        since = time.monotonic() - self._damaged_at.get(place, float("-inf"))
        return since < _LATE_SECONDS and offset != self.next[place]

    def _partition(self, place: Place, offset: int = 0) -> Partition:
        return Partition(self._prefix + place[0], place[1], offset)

    def _logical(self, topic: str) -> str:
        return topic.removeprefix(self._prefix)


def _noticed(outage: Outage, error: KafkaError) -> None:
    """librdkafka's `error_cb`, called while polling."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        outage.failed(error.str())
