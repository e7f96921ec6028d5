"""Bring stores up to date from their changelogs, a part at a time.

Every store begins at its checkpoint if that can be trusted, else from the start. The target is the
end of the changelog under READ_UNCOMMITTED, asked after the group's committed offsets. The
read_committed consumer's position reaches it even if only transaction markers are at the end.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.kafka.offsets import Place, earliest, latest, offset_in, request_offsets
from streams.runtime.doubted_ends import DoubtedEnds
from streams.runtime.restoring_store import Restoring, ahead, begin

log = structlog.get_logger(__name__)

_MOST = 20_000
"""About how many records are read, or changes held, before they are folded in."""
_READ = 16
"""How many records are read at a time: each may hold thousands of changes."""
_TIMEOUT = 5.0
_TELL_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
"""How long it waits before it reads again what could not be read."""


class Restore:
    """Restores some stores with one consumer; call `advance` until it returns True.

    Raises, from the constructor:
        KafkaException: the changelogs' offsets are not answered in time.
        EndDoubted: a changelog's end is not believed yet.
    """

    def __init__(
        self,
        stores: Sequence[Restoring],
        admin: AdminClient,
        prefix: str,
        config: Mapping[str, Any],
        now_ms: int,
        doubted: DoubtedEnds,
    ) -> None:
        self._started = time.monotonic()
        self._stores = {(prefix + s.changelog.topic, s.partition): s for s in stores}
        asked_starts = request_offsets(admin, "", self._stores, earliest(), _TIMEOUT)
        asked_ends = request_offsets(admin, "", self._stores, latest(), _TIMEOUT)
        starts = {place: offset_in(answer) for place, answer in asked_starts.items()}
        ends = {place: offset_in(answer) for place, answer in asked_ends.items()}
        doubted.check(ahead(self._stores, ends))
        for place, store in self._stores.items():
            begin(store, starts[place], ends[place], now_ms)
        self._behind = {place: s for place, s in self._stores.items() if s.left}
        self.at_start = self._told_left = self.left
        self._admin = admin
        self._asked_starts: dict[Place, Future[Any]] = {}
        self._tell_at = self._started + _TELL_SECONDS
        self._again_at = self._started
        self._config = dict(config)
        self._told: set[int] = set()
        self._consumer = self._reading() if self._behind else None

    @property
    def left(self) -> int:
        """How many changelog offsets remain to be folded in."""
        return sum(store.left for store in self._behind.values())

    @property
    def seconds_left(self) -> float:
        """Seconds left at the pace so far; infinite before the first record."""
        done, left = self.at_start - self.left, self.left
        if not done:
            return math.inf if left else 0.0
        return left * (time.monotonic() - self._started) / done

    def advance(self, now_ms: int, timeout: float = 0.05) -> bool:
        """Fold in one part; returns whether all stores are complete."""
        if self._behind:
            self._read_on(now_ms, timeout)
        if self._behind:
            self._tell_progress()
            return False
        self.close()
        return True

    def close(self) -> None:
        """Stop, even in the middle: the records that are folded in stay."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _reading(self) -> Consumer:
        consumer = Consumer(self._config)
        consumer.assign([TopicPartition(t, p, s.next) for (t, p), s in self._behind.items()])
        return consumer

    def _read_on(self, now_ms: int, timeout: float) -> None:
        if self._consumer is None:
            time.sleep(min(timeout, max(0.0, self._again_at - time.monotonic())))
            if time.monotonic() >= self._again_at:
                self._consumer = self._reading()
        elif self._read(self._consumer, timeout):
            self._fold(self._consumer, now_ms)
        else:
            self._read_again_later()

    def _read_again_later(self) -> None:
        # A consumer moves its position past a record that it could not read, as past any other.
        for store in self._behind.values():
            store.unread.clear()
        self.close()
        self._again_at = time.monotonic() + _AGAIN_SECONDS

    def _read(self, consumer: Consumer, timeout: float) -> bool:
        """Hold the next records; returns whether all of them could be read."""
        read = held = 0
        while max(read, held) < _MOST and (messages := consumer.consume(_READ, timeout)):
            timeout = 0  # do not wait for further records
            read += len(messages)
            by_place: dict[tuple[str, int], list[Message]] = defaultdict(list)
            for message in messages:
                place = message.topic() or "", message.partition() or 0
                if (error := message.error()) is None:
                    by_place[place].append(message)
                elif place in self._stores:
                    self._tell_unreadable(place, error)
                    return False
            for place in by_place.keys() & self._behind.keys():
                store = self._behind[place]
                before = len(store.unread)
                store.take(by_place[place])
                held += len(store.unread) - before
        return True

    def _tell_unreadable(self, place: tuple[str, int], error: KafkaError) -> None:
        if error.code() not in self._told:
            self._told.add(error.code())
            topic, partition = place
            log.warning(
                "changelog cannot be read: trying on",
                topic=topic,
                partition=partition,
                error=error.str(),
            )

    def _fold(self, consumer: Consumer, now_ms: int) -> None:
        places = [TopicPartition(topic, partition) for topic, partition in self._behind]
        for found in consumer.position(places):
            store = self._behind[found.topic, found.partition]
            position = max(found.offset, store.next)
            if position == store.next and store.left:
                continue
            store.fold(position, now_ms)
            if not store.left:
                del self._behind[found.topic, found.partition]
                self._tell(store)

    def _tell_progress(self) -> None:
        if time.monotonic() < self._tell_at:
            return
        self._tell_at = time.monotonic() + _TELL_SECONDS
        log.info("restoring", records_left=self.left, seconds_left=round(self.seconds_left, 1))
        if self.left == self._told_left:
            self._pass_deleted()
        self._told_left = self.left

    def _pass_deleted(self) -> None:
        # If retention deletes all that is left to read, the consumer's position stays for ever.
        for place, answer in self._asked_starts.items():
            if place in self._behind and answer.done() and not answer.exception():
                store = self._behind[place]
                store.next = max(store.next, min(answer.result().offset, store.target))
        self._asked_starts = request_offsets(self._admin, "", self._behind, earliest(), _TIMEOUT)

    def _tell(self, store: Restoring) -> None:
        log.info(
            "store restored",
            store=store.store,
            partition=store.partition,
            entries=store.entries,
            seconds=round(time.monotonic() - self._started, 2),
        )
