"""Counts rows up to a bound, so that a call never reads a whole table."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streams.api.rows.json_values import Json

MOST = 10_000


@dataclass(frozen=True, slots=True)
class Matched:
    """How many rows match; with `is_bound` there are more, which nobody counted."""

    count: int
    is_bound: bool

    def json(self) -> Json:
        return {"matched": self.count, "matched_is_bound": self.is_bound}


def matched(
    connection: sqlite3.Connection, table: str, where: str, values: Sequence[Any]
) -> Matched:
    """Count the rows of a table for which SQL holds, `MOST` of them at most."""
    (found,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {where} LIMIT ?)",  # noqa: S608  constants
        (*values, MOST + 1),
    ).fetchone()
    return Matched(min(found, MOST), found > MOST)
