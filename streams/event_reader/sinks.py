"""Where a reader's effects and its offsets go: a database, or other topics of Kafka.

A sink writes both in one transaction, so a reader that ends at any line goes on where its effects
end. It compares the stored offset with the one from which it has read. So a process that has lost
its partition without knowing it writes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streams.errors import ConfigError
from streams.serde.records import Envelope

_TIMEOUT_SECONDS = 30.0
_DDL = """CREATE TABLE IF NOT EXISTS tidegate_offsets (
  reader VARCHAR(255) NOT NULL, topic VARCHAR(255) NOT NULL, part INTEGER NOT NULL,
  next_offset BIGINT NOT NULL, PRIMARY KEY (reader, topic, part))"""
_WHERE = "WHERE reader = ? AND topic = ? AND part = ?"
_SELECT = f"SELECT next_offset FROM tidegate_offsets {_WHERE}"  # noqa: S608  constants
_UPDATE = f"UPDATE tidegate_offsets SET next_offset = ? {_WHERE} AND next_offset = ?"  # noqa: S608
_INSERT = "INSERT INTO tidegate_offsets (next_offset, reader, topic, part) VALUES (?, ?, ?, ?)"


class Moved(Exception):
    """Another process has written further offsets of the partition; nothing was written."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one transaction takes of one partition.

    `stored` is the offset that the sink has, or None; `next` is the one that it has afterwards.
    """

    partition: int
    stored: int | None
    next: int
    events: Sequence[Envelope]


class Sink(Protocol):
    """Stores effects and offsets of one group of readers."""

    def open(self, reader: str, topic: str, client: Mapping[str, Any]) -> None:
        """Get ready; `client` are the settings of a Kafka client."""

    def stored(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int | None]:
        """The next offset of each partition; None before the first transaction."""

    def write(
        self, consumer: Consumer, part: Part, handle: Callable[[Envelope, Any], object]
    ) -> None:
        """Handle the events and store the next offset, in one transaction.

        Raises:
            Moved: another process has gone on from there.
        """

    def close(self) -> None:
        """Let go of what `open` has opened."""


class DatabaseSink:
    """A database behind Python's DB-API (PEP 249); `handle` gets an event and a cursor.

    `connect` opens a connection that does not commit by itself. The offsets lie in the table
    `tidegate_offsets`, which is made if it is not there. `placeholder` is the driver's: `%s` of
    psycopg, `?` of sqlite3.
    """

    def __init__(self, connect: Callable[[], Any], placeholder: str = "%s") -> None:
        self._connect = connect
        self._placeholder = placeholder
        self._connection: Any = None
        self._reader = self._topic = ""

    def open(self, reader: str, topic: str, client: Mapping[str, Any]) -> None:
        self._reader, self._topic = reader, topic
        self._connection = self._connect()
        if getattr(self._connection, "autocommit", False) is True:
            raise ConfigError(
                "the database's connection commits by itself, so an effect and its offset are not "
                "one transaction: connect without autocommit"
            )
        self._run(self._connection.cursor(), _DDL)
        self._connection.commit()

    def stored(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int | None]:
        cursor = self._connection.cursor()
        found = {number: self._stored(cursor, number) for number in partitions}
        self._connection.rollback()
        return found

    def write(
        self, consumer: Consumer, part: Part, handle: Callable[[Envelope, Any], object]
    ) -> None:
        cursor = self._connection.cursor()
        try:
            # The row is taken first: whoever comes second waits for it, then finds another offset.
            self._take(cursor, part)
            for event in part.events:
                with_place(handle, event, cursor)
            if self._stored(cursor, part.partition) != part.next:
                raise ConfigError(
                    "the handler has ended the transaction that its effects are in: it must "
                    "neither commit nor roll back"
                )
            self._connection.commit()
        except BaseException:
            with suppress(Exception):
                self._connection.rollback()
            raise
        finally:
            with suppress(Exception):
                cursor.close()
        with suppress(KafkaException):  # Only those who watch the group's lag need it.
            place = TopicPartition(self._topic, part.partition, part.next)
            consumer.commit(offsets=[place], asynchronous=True)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _take(self, cursor: Any, part: Part) -> None:
        place = (self._reader, self._topic, part.partition)
        if part.stored is not None:
            self._run(cursor, _UPDATE, part.next, *place, part.stored)
            if cursor.rowcount != 1:
                raise Moved
            return
        try:
            self._run(cursor, _INSERT, part.next, *place)
        except Exception:
            self._connection.rollback()
            if self._stored(cursor, part.partition) is None:
                raise
            raise Moved from None

    def _stored(self, cursor: Any, partition: int) -> int | None:
        self._run(cursor, _SELECT, self._reader, self._topic, partition)
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def _run(self, cursor: Any, sql: str, *values: object) -> None:
        cursor.execute(sql.replace("?", self._placeholder), values)


class SqliteSink(DatabaseSink):
    """A file of SQLite; `handle` gets an event and a cursor."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(lambda: sqlite3.connect(path, timeout=_TIMEOUT_SECONDS), "?")


Send = Callable[..., None]


class KafkaSink:
    """Other topics of the same Kafka; `handle` gets an event and `send(topic, value, key=None)`.

    The offsets are those of the consumer group. Readers of these topics must read committed records
    alone. Source: KIP-447.
    """

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._producer: Producer

    def open(self, reader: str, topic: str, client: Mapping[str, Any]) -> None:
        self._topic = topic
        self._producer = Producer({
            **client, "transactional.id": self._transactional_id, "acks": "all",
            "transaction.timeout.ms": 10_000,
        })  # fmt: skip
        self._producer.init_transactions(_TIMEOUT_SECONDS)

    def stored(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int | None]:
        places = [TopicPartition(self._topic, number) for number in partitions]
        found = consumer.committed(places, _TIMEOUT_SECONDS)
        return {p.partition: None if p.offset < 0 else p.offset for p in found}

    def write(
        self, consumer: Consumer, part: Part, handle: Callable[[Envelope, Any], object]
    ) -> None:
        self._producer.begin_transaction()
        try:
            for event in part.events:
                with_place(handle, event, self._send)
            place = TopicPartition(self._topic, part.partition, part.next)
            self._producer.send_offsets_to_transaction(
                [place], consumer.consumer_group_metadata(), _TIMEOUT_SECONDS
            )
            self._producer.commit_transaction(_TIMEOUT_SECONDS)
        except BaseException as error:
            with suppress(KafkaException):
                self._producer.abort_transaction(_TIMEOUT_SECONDS)
            if isinstance(error, KafkaException) and error.args[0].code() in _NOT_OURS:
                raise Moved from None
            raise

    def close(self) -> None:
        """Nothing: an open transaction was aborted."""

    def _send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._producer.produce(topic, value, key)
        self._producer.poll(0)


_NOT_OURS = frozenset({
    KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
})  # fmt: skip
"""Codes that say that the group has given the partition to somebody else."""


def with_place(handle: Callable[[Envelope, Any], object], event: Envelope, to: Any) -> None:
    """Handle an event; an exception names it."""
    try:
        handle(event, to)
    except Exception as error:
        error.add_note(f"while event {event.event_id} of tenant {event.tenant_id!r} was handled")
        raise
