"""Folds records into changes of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streams.operator.resources import TABLES
from streams.operator.resources.table import Row, Table
from streams.runtime.processor import Record

_TABLES = {table.topic: table for table in TABLES}


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch changes in one table: the last change of each row."""

    table: Table
    rows: dict[Row, Row | None]

    def upserts(self) -> Iterable[Row]:
        return [row for row in self.rows.values() if row is not None]

    def deletions(self) -> Iterable[Row]:
        return [key for key, row in self.rows.items() if row is None]


def project(record: Record, batch: dict[str, Changes]) -> None:
    """Add one record to a batch, by table; a record without a value deletes its row.

    Raises:
        DecodeError: the record is not of its topic's type; the batch is unchanged.
    """
    table = _TABLES[record.topic]
    row = None if record.value is None else table.row(record)
    key = table.row_key(record) if row is None else row[: table.key_size]
    batch.setdefault(table.name, Changes(table, {})).rows[key] = row
