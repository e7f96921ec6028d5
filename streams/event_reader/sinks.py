"""Where a reader's effects and its offsets go: a database, or other topics of Kafka.

A sink writes both in one transaction, so a reader that ends at any line goes on where its effects
end. It compares the stored offset with the one from which it has read. So a process that has lost
its partition without knowing it writes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.errors import ConfigError
from streams.event_reader.handling import Handle, Part, handled

log = structlog.get_logger(__name__)

_LOCKED_SECONDS = 30.0

_NOWHERE = -1
"""A partition that no topic has."""

_TAKEN = -2
"""`_TAKEN - offset` is stored during a transaction that began at an offset, or -1 at none."""

_DDL = """CREATE TABLE IF NOT EXISTS tidegate_offsets (
  reader VARCHAR(255) NOT NULL, topic VARCHAR(255) NOT NULL, part INTEGER NOT NULL,
  next_offset BIGINT NOT NULL, PRIMARY KEY (reader, topic, part))"""
_WHERE = "WHERE reader = ? AND topic = ? AND part = ?"
_SELECT = f"SELECT next_offset FROM tidegate_offsets {_WHERE}"  # noqa: S608  constants
_UPDATE = f"UPDATE tidegate_offsets SET next_offset = ? {_WHERE} AND next_offset = ?"  # noqa: S608
_DELETE = f"DELETE FROM tidegate_offsets {_WHERE}"  # noqa: S608  constants
_INSERT = "INSERT INTO tidegate_offsets (next_offset, reader, topic, part) VALUES (?, ?, ?, ?)"


class Moved(Exception):
    """Another process has written further offsets of the partition; nothing was written."""


class Sink(Protocol):
    """Stores effects and offsets of one group of readers."""

    def open(self, reader: str, topic: str, client: Mapping[str, Any]) -> None:
        """Get ready; `client` are the settings of a Kafka client."""

    def stored(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int | None]:
        """The next offset of each partition; None before the first transaction."""

    def write(self, consumer: Consumer, part: Part, handle: Handle) -> int:
        """Handle events and store the next offset, in one transaction; return that offset.

        It lies before `part.next` if the time was up before all events were handled.

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
        cursor = self._connection.cursor()
        self._make_table(cursor)
        self._require_transactions(cursor)

    def stored(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int | None]:
        cursor = self._connection.cursor()
        found = {number: self._released(cursor, number) for number in partitions}
        self._connection.commit()
        return found

    def write(self, consumer: Consumer, part: Part, handle: Handle) -> int:
        cursor = self._connection.cursor()
        try:
            # The row is taken first: whoever comes second waits for it, then finds another offset.
            self._take(cursor, part)
            after = handled(part, handle, cursor)
            if not self._moved(cursor, part.partition, _taken(part.stored), after):
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
            place = TopicPartition(self._topic, part.partition, after)
            consumer.commit(offsets=[place], asynchronous=True)
        return after

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _make_table(self, cursor: Any) -> None:
        """Make the table, unless it is there.

        PostgreSQL refuses that to the second of two processes that do it at once, and to a user who
        may not create tables.
        """
        try:
            self._run(cursor, _DDL)
            self._connection.commit()
        except Exception:
            self._connection.rollback()
            self._stored(cursor, _NOWHERE)
            self._connection.rollback()

    def _require_transactions(self, cursor: Any) -> None:
        """Check that what is rolled back is not there: drivers tell of it in many ways, or none."""
        self._run(cursor, _INSERT, 0, self._reader, self._topic, _NOWHERE)
        self._connection.rollback()
        if self._stored(cursor, _NOWHERE) is not None:
            self._run(cursor, _DELETE, self._reader, self._topic, _NOWHERE)
            raise ConfigError(
                "the database's connection commits by itself, so an effect and its offset are not "
                "one transaction: connect without autocommit, to tables that have transactions"
            )
        self._connection.rollback()

    def _take(self, cursor: Any, part: Part) -> None:
        if part.stored is not None:
            if not self._moved(cursor, part.partition, part.stored, _taken(part.stored)):
                raise Moved
            return
        try:
            self._run(cursor, _INSERT, _taken(None), self._reader, self._topic, part.partition)
        except Exception:
            self._connection.rollback()
            if self._stored(cursor, part.partition) is None:
                raise
            raise Moved from None

    def _released(self, cursor: Any, partition: int) -> int | None:
        """The next offset, that of before if a transaction's handler committed half of it."""
        found = self._stored(cursor, partition)
        if found is None or found >= 0:
            return found
        log.warning(
            "the handler has committed by itself: some events are handled again",
            partition=partition,
        )
        if found == _taken(None):
            self._run(cursor, _DELETE, self._reader, self._topic, partition)
            return None
        before = _TAKEN - found
        self._moved(cursor, partition, found, before)
        return before

    def _moved(self, cursor: Any, partition: int, now: int, to: int) -> bool:
        """Store another offset of a partition; False if the stored one is not `now`."""
        self._run(cursor, _UPDATE, to, self._reader, self._topic, partition, now)
        return bool(cursor.rowcount == 1)

    def _stored(self, cursor: Any, partition: int) -> int | None:
        self._run(cursor, _SELECT, self._reader, self._topic, partition)
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def _run(self, cursor: Any, sql: str, *values: object) -> None:
        cursor.execute(sql.replace("?", self._placeholder), values)


def _taken(stored: int | None) -> int:
    """The offset stored meanwhile: if its handler commits half-way, no event is lost."""
    return -1 if stored is None else _TAKEN - stored


class SqliteSink(DatabaseSink):
    """A file of SQLite; `handle` gets an event and a cursor."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(lambda: sqlite3.connect(path, timeout=_LOCKED_SECONDS), "?")
