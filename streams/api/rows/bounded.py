"""Counts that look at so many rows and no more, however many there are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

MOST = 1_000
"""So many rows are looked at for one number."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """How many there are among the rows that were looked at, and whether there are more rows."""

    count: int
    more: bool


def bounded(connection: sqlite3.Connection, table: str, where: str, keep: str = "1") -> Bounded:
    """Count rows of a table.

    `MOST` rows for which `where` holds are looked at; an index must have these rows alone. Those
    count for which `keep` holds, too.
    """
    rows = f"SELECT {keep} AS kept FROM {table} WHERE {where} LIMIT {MOST + 1}"  # noqa: S608  constants
    looked, found = connection.execute(
        f"SELECT count(*), coalesce(sum(kept), 0) FROM ({rows})"  # noqa: S608
    ).fetchone()
    return Bounded(min(found, MOST), looked > MOST)
