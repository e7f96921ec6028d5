"""One page of a list: newest first, by time and id, bounded in rows and in bytes."""

from __future__ import annotations

import sqlite3
from typing import Any

from streams.operator.read_model.cursor import Cursor

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends early where its records are so large; one is shown at least."""

Entry = tuple[int, str, bytes]
"""Time, id and record of a row."""


def newest(
    connection: sqlite3.Connection,
    table: str,
    order: tuple[str, str],
    equal: dict[str, str | None],
    limit: int,
    cursor: Cursor | None,
) -> tuple[list[Entry], Cursor | None]:
    """Rows behind a cursor, and the cursor behind the last of them, None at the end.

    `order` names the columns of time and id, `equal` what others must hold (None: anything).
    """
    at, id_ = order
    where, values = _conditions(order, equal, cursor)
    found = connection.execute(
        f"SELECT {at}, {id_}, record FROM {table} {where}"  # noqa: S608  names are constants
        f" ORDER BY {at} DESC, {id_} DESC LIMIT ?",
        (*values, limit + 1),
    )
    rows, size = list[Entry](), 0
    for row in found:
        size += len(row[2])
        if len(rows) == limit or (rows and size > PAGE_BYTES):
            return rows, Cursor(*rows[-1][:2])
        rows.append(row)
    return rows, None


def _conditions(
    order: tuple[str, str], equal: dict[str, str | None], cursor: Cursor | None
) -> tuple[str, list[Any]]:
    given = {name: value for name, value in equal.items() if value is not None}
    conditions, values = [f"{name} = ?" for name in given], list[Any](given.values())
    if cursor is not None:
        conditions.append(f"({order[0]}, {order[1]}) < (?, ?)")
        values += [cursor.at, cursor.id]
    return f"WHERE {' AND '.join(conditions)}" if conditions else "", values
