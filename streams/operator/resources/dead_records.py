"""Dead letters of records in the read model, in the order of their offsets."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from streams.operator.resources.cursor import Cursor
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter

_PAGE_BYTES = 32 * 1024 * 1024
"""One call sends in at most this much, so that it answers in time."""
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH = 200
"""One transaction holds at most this many letters and bytes."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A letter and its partition of `dlq`, on which its mark must follow it."""

    letter: DeadLetter
    partition: int


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are meant; None does not restrict, the letters' times are in milliseconds."""

    stage: str | None = None
    reason: str | None = None
    topic: str | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Ids in batches, each for one transaction; `matched` also counts those on later pages."""

    batches: tuple[tuple[str, ...], ...]
    matched: int
    next: Cursor | None


def letters(connection: sqlite3.Connection, ids: Collection[str]) -> list[StoredLetter]:
    """Return the letters of records that have these ids, in the order of their offsets."""
    marks = ", ".join("?" * len(ids))
    rows = connection.execute(
        f"SELECT record, part FROM dead_letters WHERE kind = 'record' AND id IN ({marks})"  # noqa: S608  marks
        " ORDER BY place",
        tuple(ids),
    )
    return [StoredLetter(DEAD_LETTER.decode(record), part) for record, part in rows]


def selected(
    connection: sqlite3.Connection, wanted: LetterFilter, limit: int, cursor: Cursor | None
) -> Selection:
    """Select letters of records that were not sent in again yet."""
    where, values = _conditions(wanted, cursor)
    (matched,) = connection.execute(
        f"SELECT count(*) FROM dead_letters WHERE {where}",  # noqa: S608  names are constants
        values,
    ).fetchone()
    rows = connection.execute(
        f"SELECT id, place, length(record) FROM dead_letters WHERE {where}"  # noqa: S608
        " ORDER BY place LIMIT ?",
        (*values, limit),
    ).fetchall()
    page = _within(rows)
    after = Cursor(0, page[-1][1]) if page and matched > len(page) else None
    return Selection(_batches(page), matched, after)


def _conditions(wanted: LetterFilter, cursor: Cursor | None) -> tuple[str, list[str | int]]:
    given: dict[str, str | int | None] = {
        "stage = ?": wanted.stage, "reason = ?": wanted.reason, "topic = ?": wanted.topic,
        "at >= ?": wanted.since, "at < ?": wanted.until,
        "place > ?": cursor.id if cursor else None,
    }  # fmt: skip
    known = {condition: value for condition, value in given.items() if value is not None}
    return " AND ".join(["kind = 'record'", "replayed = 0", *known]), list(known.values())


def _within(rows: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    size, page = 0, list[tuple[str, str, int]]()
    for row in rows:
        size += row[2]
        if page and size > _PAGE_BYTES:
            break
        page.append(row)
    return page


def _batches(page: list[tuple[str, str, int]]) -> tuple[tuple[str, ...], ...]:
    batches: list[list[str]] = [[]]
    size = 0
    for id_, _, bytes_ in page:
        if batches[-1] and (size + bytes_ > _BATCH_BYTES or len(batches[-1]) == _BATCH):
            batches.append([])
            size = 0
        batches[-1].append(id_)
        size += bytes_
    return tuple(map(tuple, filter(None, batches)))
