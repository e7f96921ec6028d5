"""Folds records into changes of rows.

Whoever writes to a topic chooses the content of its records. None of it may stop the read model: an
error that content can cause makes the record poison, and any other error is tried again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import chain

from streams.api.rows.table import Row, Table
from streams.api.tables import TABLES, TALLIES
from streams.errors import DecodeError
from streams.runtime.processor import Record
from streams.settings import Settings
from streams.topology.model import Topology

_TABLES = {table.topic: table for table in TABLES}
_KEYED = frozenset(table.topic for table in TABLES if table.keyed)
_HOUR_MS = 3_600_000

OF_A_RECORD = (
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    RecursionError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
)
"""Errors that the content of a record can cause: in its fold, or in SQLite when it is written.

`UnicodeError` is a `ValueError`, `OverflowError` an `ArithmeticError`."""

_LEAST, _MOST = -(2**63), 2**63 - 1
"""An SQLite integer has 64 bits (sqlite.org/datatype3.html)."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch changes in one table: the last change of each row."""

    table: Table
    rows: dict[Row, Row | None]

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the changes, inside the caller's transaction."""
        table = self.table
        rows = [row for row in self.rows.values() if row is not None]
        whole = len(rows) - len(rows) % table.at_once
        for begin in range(0, whole, table.at_once):
            some = rows[begin : begin + table.at_once]
            written = connection.execute(table.upsert_many, tuple(chain.from_iterable(some)))
            if written.rowcount < len(some):
                connection.executemany(table.replace, some)
        for row in rows[whole:]:
            if not connection.execute(table.upsert, row).rowcount:
                connection.execute(table.replace, row)
        gone = [key for key, row in self.rows.items() if row is None]
        connection.executemany(table.delete, gone)


def project(record: Record, batch: dict[str, Changes]) -> None:
    """Add one record to a batch, by table; a record without a value deletes its row.

    Raises:
        DecodeError: the record is not of its topic's type; the batch is unchanged.
    """
    table = _TABLES[record.topic]
    try:
        row = None if record.value is None else table.row(record)
        key = table.row_key(record) if row is None else row[: table.key_size]
        _require_storable(key if row is None else row)
    except OF_A_RECORD as error:
        raise unusable(record, error) from error
    changes = batch.get(table.name)
    if changes is None:
        changes = batch[table.name] = Changes(table, {})
    changes.rows[key] = row


def name_of(record: Record) -> Hashable:
    """Return what all records have in common of which a later one replaces the earlier ones.

    So the earlier ones need not be read, as if Kafka had compacted them.
    """
    name = record.key if record.topic in _KEYED else record.offset
    return record.topic, record.partition, name


def write(connection: sqlite3.Connection, batch: Mapping[str, Changes], now: int) -> None:
    """Write the changes of a batch, and what they add to the tallies; `now` in milliseconds.

    It is called within a transaction.
    """
    written = {name: changes.rows.values() for name, changes in batch.items()}
    for tally in TALLIES:
        tally.add(connection, written, now)
    for changes in batch.values():
        changes.write(connection)


def kept_ms(table: Table, settings: Settings, topology: Topology) -> int | None:
    """Return the age at which rows of a table are deleted; None: a tombstone deletes them."""
    if not table.expires:
        return None
    of_topic = topology.topics[table.topic].retention_ms
    if table.kept_hours is None:
        return of_topic
    of_table = table.kept_hours(settings) * _HOUR_MS
    return of_table if of_topic is None else min(of_topic, of_table)


def oldest_wanted(settings: Settings, now: int) -> dict[str, int]:
    """Return from which time on records are read, of the topics whose table is kept so short."""
    kept = {table.topic: table.kept_hours for table in TABLES if table.kept_hours is not None}
    return {topic: now - hours(settings) * _HOUR_MS for topic, hours in kept.items()}


def reports_poison(topic: str) -> bool:
    """Return whether a record that is no row of its table becomes a dead letter."""
    return _TABLES[topic].reports_poison


def _require_storable(row: Row) -> None:
    """Check that SQLite takes all values of a row.

    Raises:
        ValueError: an integer has more than 64 bits, or a text is not Unicode (a lone surrogate).
    """
    for value in row:
        if type(value) is str:
            if not value.isascii():
                value.encode()
        elif type(value) is int and not _LEAST <= value <= _MOST:
            raise ValueError("an integer has more than 64 bits")


def unusable(record: Record, error: Exception) -> DecodeError:
    """Return what makes a record poison that is not usable as a row."""
    return DecodeError(f"{record.topic}: {type(error).__name__}: {error}")
