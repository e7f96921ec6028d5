"""The declaration of a table: the topic it shows, its columns, and how a record becomes a row."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from streams.errors import DecodeError
from streams.runtime.processor import Record
from streams.serde import keys
from streams.serde.codec import Codec
from streams.settings import Settings

T = TypeVar("T")
Row = tuple[Any, ...]
RowKey = tuple[str, Row]
"""Table and primary key of a row."""

_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
"""It fits into the 64 bits of an SQLite integer."""
_SHOWN = 40
_MOST_MARKS = 2_000
"""In a statement that writes many rows; SQLite takes 32,766, but more than this save nothing."""


@dataclass(frozen=True)
class Table:
    """A table of the read model, folded from one topic.

    `key` and `columns` define the primary key's columns and the others in SQL, separated by ", ".
    `indexes` maps the end of an index's name to the SQL behind `ON table`. A table with a key of
    several columns has no rowid, because SQLite then stores the key only once.
    """

    name: str
    topic: str
    key: str
    columns: str
    row: Callable[[Record], Row]
    """Returns the values in the columns' order; raises `DecodeError`."""
    indexes: Mapping[str, str] = field(default_factory=dict)
    split: Callable[[bytes], Sequence[str]] = keys.split
    """Returns the values of the key's columns from the key of a record."""
    expires: bool = False
    """Whether a row is deleted once its column `at` is older than the topic's retention."""
    may_expire: str = "1"
    """SQL: whether a row that is so old is deleted."""
    kept_hours: Callable[[Settings], int] | None = None
    """Returns the age at which rows of this table are deleted earlier, and older records not read.

    Such a topic must have no tombstones, and its records must have the time of `at`.
    """
    fixed: Collection[str] = ()
    """Columns that the records of a key seldom change, so that indexes of these alone are seldom
    written again. Without any, each write replaces the row: it gets the next higher rowid, and
    triggers see a deletion and an insertion."""
    rowid: bool = False
    """Whether a table with a key of several columns has a rowid, too: the order of its writing."""
    belongs: str = "tenant_id {covered}"
    """SQL: whether a row is of a tenant that the reader may see; `{covered}` are those tenants."""
    reports_poison: bool = True
    """Whether a record that is no row becomes a dead letter; False if a stage reports it."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of a row's values."""
        return tuple(_names(self._columns))

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """The names of the primary key's columns, which come first."""
        return tuple(_names(self.key))

    @property
    def key_size(self) -> int:
        return len(self.key_names)

    @property
    def has_rowid(self) -> bool:
        return self.key_size == 1 or self.rowid

    @property
    def keyed(self) -> bool:
        """Whether the key of a record names its row, so that a later one of that key replaces it.

        Without tombstones, the rows of one key are different rows.
        """
        return self.split is not no_tombstone

    @property
    def ddl(self) -> str:
        """SQL that creates the table without its indexes."""
        rowid = "" if self.has_rowid else " WITHOUT ROWID"
        keys_ = ", ".join(self.key_names)
        return f"CREATE TABLE {self.name} ({self._columns}, PRIMARY KEY ({keys_})){rowid};"

    @property
    def index_ddl(self) -> Mapping[str, str]:
        """SQL that creates each index, by the index's name."""
        return {
            f"{self.name}_{name}": f"CREATE INDEX {self.name}_{name} ON {self.name} {definition};"
            for name, definition in self.indexes.items()
        }

    @cached_property
    def at_once(self) -> int:
        """How many rows `upsert_many` writes."""
        return _MOST_MARKS // len(self.names)

    @cached_property
    def replace(self) -> str:
        """SQL that writes a row in place of any other."""
        return f"INSERT OR REPLACE {self._values(1)}"

    @cached_property
    def upsert(self) -> str:
        """SQL that writes a row, unless there is one whose `fixed` columns differ."""
        return self._upsert(1)

    @cached_property
    def upsert_many(self) -> str:
        """SQL that does so with `at_once` rows, in three quarters of the time."""
        return self._upsert(self.at_once)

    def _upsert(self, rows: int) -> str:
        if not self.fixed:
            return f"INSERT OR REPLACE {self._values(rows)}"
        moving = (name for name in self.names if name not in (*self.key_names, *self.fixed))
        moved = ", ".join(f"{name} = excluded.{name}" for name in moving)
        same = " AND ".join(f"{self.name}.{name} IS excluded.{name}" for name in self.fixed)
        conflict = f"ON CONFLICT ({', '.join(self.key_names)}) DO UPDATE SET {moved} WHERE {same}"
        return f"INSERT {self._values(rows)} {conflict}"

    def _values(self, rows: int) -> str:
        marks = ", ".join([f"({', '.join('?' * len(self.names))})"] * rows)
        return f"INTO {self.name} ({', '.join(self.names)}) VALUES {marks}"

    @cached_property
    def delete(self) -> str:
        wanted = " AND ".join(f"{name} = ?" for name in self.key_names)
        return f"DELETE FROM {self.name} WHERE {wanted}"  # noqa: S608

    @property
    def expire(self) -> str:
        """SQL that deletes some of the rows older than a moment: the moment, and how many."""
        names = ", ".join(self.key_names)
        which = f"at < ? AND {self.may_expire} LIMIT ?"
        found = f"SELECT {names} FROM {self.name} WHERE {which}"  # noqa: S608
        return f"DELETE FROM {self.name} WHERE ({names}) IN ({found})"  # noqa: S608

    def row_key(self, record: Record) -> Row:
        """Return the primary key that the key of a record names.

        Raises:
            DecodeError: the key has other parts.
        """
        try:
            parts = self.split(record.key or b"")
        except UnicodeDecodeError as error:
            raise DecodeError(f"{record.topic}: the key is not UTF-8") from error
        if len(parts) != self.key_size:
            raise DecodeError(f"{record.topic}: a key of {len(parts)} parts")
        typed = zip(parts, self.key.split(", "), strict=True)
        return tuple(_integer(p) if column.endswith("INTEGER") else p for p, column in typed)

    @property
    def _columns(self) -> str:
        return f"{self.key}, {self.columns}"


def find(connection: sqlite3.Connection, codec: Codec[T], table: str, **columns: str) -> T | None:
    """Return the record of the row that has these values in these columns."""
    wanted = " AND ".join(f"{name} = ?" for name in columns)
    row = connection.execute(
        f"SELECT record FROM {table} WHERE {wanted}",  # noqa: S608  names are constants
        tuple(columns.values()),
    ).fetchone()
    return None if row is None else codec.decode(row[0])


def no_tombstone(_: bytes) -> list[str]:
    """Refuse a record without a value, as the `split` of a topic that has none."""
    raise DecodeError("a record without a value")


def status_in(*names: str) -> str:
    """Return the condition in SQL that the column `status` has one of these values.

    SQLite uses a partial index only for a query that repeats the index's condition word for word.
    """
    if len(names) == 1:
        return f"status = '{names[0]}'"
    listed = ", ".join(f"'{name}'" for name in sorted(names))
    return f"status IN ({listed})"


def _names(definitions: str) -> list[str]:
    return [column.split()[0] for column in definitions.split(", ")]


def _integer(text: str) -> int:
    """Return the number that a key has in decimal digits, as our own keys write it."""
    if _NUMBER.fullmatch(text) is None:
        raise DecodeError(f"{text[:_SHOWN]!r} in a key is no number of 18 digits at most")
    return int(text)
