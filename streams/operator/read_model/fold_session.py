"""One session of following: from resuming at the stored offsets to the first error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.errors import KafkaUnavailable, PoisonRecord
from streams.kafka.admin import admin_client
from streams.kafka.clients import UNHURRIED, consumer_config
from streams.kafka.failures import GONE, UNREADABLE, Outage, damage
from streams.kafka.offsets import EndOffsetsPoll, Ends, Place
from streams.operator import STAGE
from streams.operator.read_model import positions
from streams.operator.read_model.database import transaction
from streams.operator.read_model.freshness import Freshness
from streams.operator.read_model.positions import Untrusted
from streams.operator.read_model.projections import (
    Changes,
    oldest_wanted,
    project,
    reports_poison,
)
from streams.operator.read_model.storable import OF_A_RECORD, unusable
from streams.operator.read_model.undecodable import Undecodable
from streams.operator.resources.table import RowKey
from streams.process.standstill import Standstill
from streams.process.wall_clock import wall_ms
from streams.runtime import metrics
from streams.runtime.processor import Record
from streams.settings import Settings

log = structlog.get_logger(__name__)

_BATCH = 5_000
_POLL_SECONDS = 0.05
"""How soon a position that moved past a transaction marker, without a message, is noticed."""
_ASK_EVERY_MS = 1_000


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the read model is behind the ends that the broker gave at `heard_at` (ms)."""

    records: int
    seconds: float
    heard_at: int


class FoldSession:
    """Folds every followed partition, from one consumer, into one file.

    One SQLite transaction stores rows and the offsets behind them. So after a kill, only records
    whose rows were not committed are read again.
    """

    def __init__(
        self,
        settings: Settings,
        connection: sqlite3.Connection,
        announce: Callable[[Iterable[RowKey]], None],
        outage: Outage,
    ) -> None:
        self._prefix = settings.topic_prefix
        self._connection = connection
        self._announce = announce
        self._outage = outage
        self._undecodable = Undecodable(settings)
        admin, now = admin_client(settings), wall_ms()
        self._spans = positions.spans(admin, self._prefix, oldest_wanted(settings, now))
        self._next = positions.resume(connection, self._spans, now)
        self._seen_at = dict.fromkeys(self._next, now)
        ends = Ends(now, {place: span.high for place, span in self._spans.items()})
        self.freshness = Freshness(positions.fresh_at(connection) or now, ends)
        self._ends_poll = EndOffsetsPoll(admin, self._prefix, outage)
        # The client demands a group's name; with partitions assigned by hand there is no group.
        # A callback of this session would keep it, with its clients, until a garbage collection.
        config = {"auto.offset.reset": "error", "error_cb": partial(_noticed, outage)}
        self._consumer = Consumer(consumer_config(settings, STAGE, **UNHURRIED, **config))
        self._partitions = [
            TopicPartition(self._prefix + topic, part, offset)
            for (topic, part), offset in self._next.items()
        ]
        self._consumer.assign(self._partitions)

    def close(self) -> None:
        with Standstill().watched():
            self._consumer.close()

    def step(self) -> None:
        """Fold the next batch, if there is one.

        Raises:
            Untrusted: the next offsets are gone, or the broker was out of reach for too long.
            KafkaException: an error from which the client does not recover.
            KafkaUnavailable: a dead letter was not acknowledged, or the broker gives a damaged
                batch; what came before it, and the other partitions' records, are folded.
        """
        self.freshness.require(wall_ms())
        first = self._consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        messages = [first, *self._consumer.consume(_BATCH - 1, 0)]
        sound, damaged = _before_damage(messages)
        records = [self._record(m) for m in sound if _is_record(m)]
        if records:
            self._fold(records)
        if damaged:
            raise damaged.pop()  # a local name would keep the batch in memory, with the error

    def _fold(self, records: list[Record]) -> None:
        self._outage.answered()
        batch = self._project(records)
        try:
            self._store(batch, records)
        except OF_A_RECORD as error:
            # `project` lets no such record through: this holds if it overlooks one.
            self._store_apart(records, error)
            return
        metrics.RECORDS.labels(STAGE).inc(len(records))
        self._announce((table, key) for table, c in batch.items() for key in c.rows)

    def _store(self, batch: Mapping[str, Changes], records: Iterable[Record]) -> None:
        """Write the changes, and the offsets behind their records, together or not at all."""
        ends = {(r.topic, r.partition): r.offset + 1 for r in records}
        with transaction(self._connection):
            _write(self._connection, batch.values())
            positions.store(self._connection, self._spans, ends)

    def _store_apart(self, records: list[Record], error: Exception) -> None:
        """Fold the records of a refused batch one by one; the one that SQLite refuses is poison."""
        if len(records) > 1:
            for record in records:
                self._fold([record])
            return
        if self._refuse(records[0], unusable(records[0], error)):
            self._undecodable.flush()
        self._store({}, records)

    def caught_up(self) -> bool:
        """Return whether every record that was on the topics when the session began is folded."""
        self.freshness.reached(self._positions())
        return all(at >= self._spans[key].high for key, at in self._next.items())

    def lag(self) -> Lag:
        """Return by how many records, and since how many seconds, the rows are behind."""
        records, seconds, now = 0, 0.0, wall_ms()
        heard = self._ends_poll.answer()
        if not 0 <= now - self._ends_poll.asked_at < _ASK_EVERY_MS:
            self._ends_poll.ask(self._spans, now)
        if heard is not None:
            self.freshness.heard(heard)
        self.freshness.reached(self._positions())
        newest = self.freshness.newest
        for key, at in self._next.items():
            behind = max(0, newest.offsets[key] - at)
            records += behind
            if behind:
                seconds = max(seconds, (now - self._seen_at[key]) / 1000)
            else:
                self._seen_at[key] = now
        metrics.LAG_RECORDS.labels(STAGE).set(records)
        return Lag(records, seconds, int(newest.asked_at))

    @property
    def folded(self) -> dict[Place, int]:
        """The offset of each partition before which all records are rows."""
        return self._next

    def _positions(self) -> dict[Place, int]:
        # Unlike the last message, a position also moves past the markers that end transactions.
        for partition in self._consumer.position(self._partitions):
            if partition.offset >= 0:
                key = (partition.topic.removeprefix(self._prefix), partition.partition)
                self._next[key] = partition.offset
        return self._next

    def _project(self, records: Iterable[Record]) -> dict[str, Changes]:
        batch: dict[str, Changes] = {}
        poisoned = False
        for record in records:
            self._seen_at[record.topic, record.partition] = record.timestamp
            try:
                project(record, batch)
            except PoisonRecord as error:
                poisoned |= self._refuse(record, error)
        if poisoned:
            self._undecodable.flush()
        return batch

    def _refuse(self, record: Record, error: PoisonRecord) -> bool:
        """Queue the dead letter of a record; return False if another stage makes it."""
        if not reports_poison(record.topic):
            place = f"{record.topic}-{record.partition}@{record.offset}"
            log.warning("a record is left out of the read model", at=place, reason=str(error))
            return False
        metrics.POISON.labels(STAGE).inc()
        self._undecodable.put(record, error)
        return True

    def _record(self, message: Message) -> Record:
        topic = (message.topic() or "").removeprefix(self._prefix)
        part, offset = message.partition() or 0, message.offset() or 0
        timestamp, key, value = message.timestamp()[1], message.key(), message.value()
        return Record(topic, part, offset, timestamp, _bytes(key), _bytes(value))


def _noticed(outage: Outage, error: KafkaError) -> None:
    """librdkafka's `error_cb`, called while polling."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        outage.failed(error.str())


def _before_damage(messages: Iterable[Message]) -> tuple[list[Message], list[KafkaUnavailable]]:
    """What each partition gave before a damaged batch, and the errors of the damaged ones."""
    sound, damaged = list[Message](), dict[tuple[str | None, int | None], KafkaUnavailable]()
    for message in messages:
        place = message.topic(), message.partition()
        error = damage(message)
        if error is not None:
            damaged.setdefault(place, error)
        elif place not in damaged:
            sound.append(message)
    return sound, list(damaged.values())


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() in GONE:
        raise Untrusted(f"{message.topic()}/{message.partition()}: {error.str()}")
    if error.fatal() or error.code() in UNREADABLE:
        raise KafkaException(error)
    return False


def _write(connection: sqlite3.Connection, batch: Iterable[Changes]) -> None:
    for changes in batch:
        connection.executemany(changes.table.upsert, changes.upserts())
        connection.executemany(changes.table.delete, changes.deletions())


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
