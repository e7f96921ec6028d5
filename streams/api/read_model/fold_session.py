"""One session of following: from resuming at the stored offsets to the first error."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import Message

from streams.api import STAGE
from streams.api.read_model import positions
from streams.api.read_model.database import transaction
from streams.api.read_model.freshness import Freshness
from streams.api.read_model.positions import Untrusted
from streams.api.read_model.projections import (
    OF_A_RECORD,
    Changes,
    name_of,
    oldest_wanted,
    project,
    reports_poison,
    unusable,
    write,
)
from streams.api.read_model.row_notifier import FOLDED
from streams.api.read_model.undecodable import Undecodable
from streams.api.rows.table import RowKey
from streams.errors import PoisonRecord
from streams.kafka.admin import admin_client
from streams.kafka.failures import Outage
from streams.kafka.offsets import EndOffsetsPoll, Ends, Place
from streams.kafka.tail import PEOPLES_SECONDS, Tail, Unreadable
from streams.process.wall_clock import wall_ms
from streams.runtime import metrics
from streams.runtime.processor import Record
from streams.settings import Settings

log = structlog.get_logger(__name__)

_BATCH = 20_000
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
    """Folds every followed partition into one file.

    It reads a few times a second where jobs flow, and each record at once while a call waits for a
    row, which is while `hurry` is set.

    One SQLite transaction stores rows and the offsets behind them. So after a kill, only records
    whose rows were not committed are read again.
    """

    def __init__(
        self,
        settings: Settings,
        connection: sqlite3.Connection,
        announce: Callable[[Iterable[RowKey]], None],
        outage: Outage,
        hurry: threading.Event,
    ) -> None:
        self._connection = connection
        self._announce = announce
        self._hurry = hurry
        self._undecodable = Undecodable(settings)
        admin, prefix, now = admin_client(settings), settings.topic_prefix, wall_ms()
        self._spans = positions.spans(admin, prefix, oldest_wanted(settings, now))
        self.begins_anew = not positions.stored(connection)
        starts = positions.resume(connection, self._spans, now)
        self._seen_at = dict.fromkeys(starts, now)
        ends = Ends(now, {place: span.high for place, span in self._spans.items()})
        self.freshness = Freshness(positions.fresh_at(connection) or now, ends)
        self._ends_poll = EndOffsetsPoll(admin, prefix, outage)
        self._tail = Tail(settings, STAGE, outage=outage, rest=PEOPLES_SECONDS, hurry=hurry)
        self._tail.begin(starts)

    def close(self) -> None:
        self._tail.close()

    def step(self) -> None:
        """Fold the next batch, if there is one.

        Raises:
            Untrusted: the next offsets are gone, or the broker was out of reach for too long.
            KafkaException: an error from which the client does not recover.
            KafkaUnavailable: a dead letter was not acknowledged, or the broker gives a damaged
                batch; what came before it, and the other partitions' records, are folded.
        """
        self.freshness.require(wall_ms())
        try:
            messages = self._tail.read(_BATCH, _POLL_SECONDS)
        except Unreadable as error:
            if error.fault.gone:
                raise Untrusted(str(error)) from error
            raise
        if messages:
            self._fold([_record(self._tail.place(message), message) for message in messages])

    def _fold(self, records: list[Record]) -> None:
        batch, last = self._project(records), _last_by_place(records)
        ends = {place: record.offset + 1 for place, record in last.items()}
        try:
            self._store(batch, ends)
        except OF_A_RECORD as error:
            # `project` lets no such record through: this holds if it overlooks one.
            self._store_apart(records, ends, error)
            return
        metrics.RECORDS.labels(STAGE).inc(len(records))
        self._seen_at |= {place: record.timestamp for place, record in last.items()}
        self._tell(batch, ends)

    def _tell(self, batch: Mapping[str, Changes], ends: Mapping[Place, int]) -> None:
        """Announce what is committed; whoever begins to wait now finds the rows themselves."""
        told: list[RowKey] = [(FOLDED, (*place, end)) for place, end in ends.items()]
        if self._hurry.is_set():
            told += [(table, key) for table, changes in batch.items() for key in changes.rows]
        self._announce(told)

    def _store(self, batch: Mapping[str, Changes], ends: dict[Place, int]) -> None:
        """Write the changes, and the offsets behind their records, together or not at all."""
        with transaction(self._connection):
            write(self._connection, batch, wall_ms())
            positions.store(self._connection, self._spans, ends)

    def _store_apart(self, records: list[Record], ends: dict[Place, int], error: Exception) -> None:
        """Fold the records of a refused batch one by one; the one that SQLite refuses is poison."""
        if len(records) > 1:
            for record in records:
                self._fold([record])
            return
        self._refuse(records[0], unusable(records[0], error))
        self._undecodable.flush()
        self._store({}, ends)

    def caught_up(self) -> bool:
        """Return whether every record that was on the topics when the session began is folded."""
        at = self._tail.positions()
        self.freshness.reached(at)
        return all(at[place] >= span.high for place, span in self._spans.items())

    def lag(self) -> Lag:
        """Return by how many records, and since how many seconds, the rows are behind."""
        records, seconds, now = 0, 0.0, wall_ms()
        heard = self._ends_poll.answer()
        if not 0 <= now - self._ends_poll.asked_at < _ASK_EVERY_MS:
            self._ends_poll.ask(self._spans, now)
        if heard is not None and heard.complete:
            self.freshness.heard(heard)
        at_now = self._tail.positions()
        self.freshness.reached(at_now)
        newest = self.freshness.newest
        for key, at in at_now.items():
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
        return dict(self._tail.next)

    def _project(self, records: Iterable[Record]) -> dict[str, Changes]:
        """Return what the last record of each key changes, or the last one that is no poison."""
        batch: dict[str, Changes] = {}
        last = {name_of(record): record for record in records}
        refused = {name for name, record in last.items() if not self._is_row(record, batch)}
        if refused:
            for record in records:
                if name_of(record) in refused and record is not last[name_of(record)]:
                    self._is_row(record, batch)
            self._undecodable.flush()
        return batch

    def _is_row(self, record: Record, batch: dict[str, Changes]) -> bool:
        try:
            project(record, batch)
        except PoisonRecord as error:
            self._refuse(record, error)
            return False
        return True

    def _refuse(self, record: Record, error: PoisonRecord) -> None:
        """Queue the dead letter of a record, unless another stage makes it."""
        if not reports_poison(record.topic):
            place = f"{record.topic}-{record.partition}@{record.offset}"
            log.warning("a record is left out of the read model", at=place, reason=str(error))
            return
        metrics.POISON.labels(STAGE).inc()
        self._undecodable.put(record, error)


def _record(place: Place, message: Message) -> Record:
    timestamp, key, value = message.timestamp()[1], message.key(), message.value()
    return Record(*place, message.offset() or 0, timestamp, _bytes(key), _bytes(value))


def _last_by_place(records: Iterable[Record]) -> dict[Place, Record]:
    return {(record.topic, record.partition): record for record in records}


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
