"""Dead letters that wait for a replay, selected a page at a time.

Nobody has replayed or discarded them, or has made them manual work.

Jobs come first, by the time of their end, then records, in the order of their offsets.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from streams.api.dead_letters.table import LISTING, UNREPLAYED
from streams.api.rows.cursor import Cursor
from streams.api.rows.matched import Matched, matched
from streams.api.rows.paging import FilterValues
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter

_PAGE_BYTES = 32 * 1024 * 1024
"""One call sends in at most this much, so that it answers in time."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A letter and its partition of `dlq`, on which its mark must follow it."""

    letter: DeadLetter
    partition: int


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job that ended badly; `at` is when, in milliseconds."""

    id: str
    at: int


@dataclass(frozen=True, slots=True)
class LetterPage:
    """A page: jobs, and ids of records.

    `matched` also counts the letters on later pages, up to a bound.
    """

    jobs: tuple[DeadJob, ...]
    records: tuple[str, ...]
    matched: Matched
    next: Cursor | None


_TO_REPLAY = replace(
    LISTING,
    where=f"discarded = 0 AND manual = 0 AND {UNREPLAYED}",
    conditions={
        **LISTING.conditions,
        "since": "at >= ?",
        "until": "at < ?",
        "behind": "place > ?",
    },
    defaults={},
)
"""The list of the letters that can be replayed."""


class _Found(NamedTuple):
    """A letter as a selection reads it; `size` in bytes."""

    kind: str
    id: str
    at: int
    place: str
    size: int


def letters(connection: sqlite3.Connection, ids: Collection[str]) -> list[StoredLetter]:
    """Return the letters that have these ids, those of records in the order of their offsets."""
    marks = ", ".join("?" * len(ids))
    rows = connection.execute(
        f"SELECT record, part FROM dead_letters WHERE id IN ({marks}) ORDER BY place",  # noqa: S608  marks
        tuple(ids),
    )
    return [StoredLetter(DEAD_LETTER.decode(record), part) for record, part in rows]


def selected(
    connection: sqlite3.Connection, filters: FilterValues, limit: int, cursor: Cursor | None
) -> LetterPage:
    """Select the next letters behind a cursor.

    The filters are those of the list, and `since` and `until` in milliseconds.
    """
    where, values = _TO_REPLAY.condition({**filters, "behind": cursor.id if cursor else None})
    found = matched(connection, "dead_letters", where, values)
    rows = connection.execute(
        f"SELECT kind, id, at, place, length(record) FROM dead_letters WHERE {where}"  # noqa: S608
        " ORDER BY place LIMIT ?",
        (*values, limit),
    )
    page = _within(map(_Found._make, rows))
    after = Cursor(0, page[-1].place) if page and found.count > len(page) else None
    jobs = tuple(DeadJob(each.id, each.at) for each in page if each.kind == "job")
    records = tuple(each.id for each in page if each.kind == "record")
    return LetterPage(jobs, records, found, after)


def _within(rows: Iterable[_Found]) -> list[_Found]:
    size, page = 0, list[_Found]()
    for row in rows:
        size += row.size
        if page and size > _PAGE_BYTES:
            break
        page.append(row)
    return page
