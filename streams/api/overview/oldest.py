"""Since when the oldest of some rows has waited, and the oldest that is late."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from streams.api.rows.restricted import RestrictedConnection

_MOST = 1_000
"""So many rows of a reader's tenants are looked at, of all its tenants together."""
_MOST_IN_ORDER = 10_000
"""So many rows that wait on purpose are passed over."""


@dataclass(frozen=True, slots=True)
class Oldest:
    """Since when (ms) the first row has waited, and the first that does not wait on purpose.

    If `is_told` is false, it is not known which row is late.
    """

    since: int | None = None
    late_since: int | None = None
    is_told: bool = True


UNTOLD = Oldest(is_told=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows that wait at a stage: those of a table for which `where` holds.

    `since` is the column with the time (ms) from which a row waits, and `index` has all waiting
    rows with it. Another index must have the waiting rows of a tenant in the order of their making.
    Rows for which `on_purpose` holds do not make the stage late.
    """

    table: str
    where: str
    since: str
    index: str
    on_purpose: str = ""

    def oldest(self, connection: sqlite3.Connection) -> Oldest:
        """Return since when the first rows wait.

        To a reader of some tenants, they are the first among those that were made first.
        """
        if isinstance(connection, RestrictedConnection):
            return self._oldest_of_each(connection)
        (since,) = connection.execute(
            f"SELECT min({self.since}) FROM {self.table} INDEXED BY {self.index}"  # noqa: S608  constants
            f" WHERE {self.where}"
        ).fetchone()
        if since is None or not self.on_purpose:
            return Oldest(since, since)
        return self._first_late(connection, int(since))

    def _first_late(self, connection: sqlite3.Connection, first: int) -> Oldest:
        """Walk the rows in the order of their waiting until one is late."""
        rows = connection.execute(
            f"SELECT {self.since}, {self.on_purpose} FROM {self.table}"  # noqa: S608  constants
            f" INDEXED BY {self.index} WHERE {self.where} ORDER BY {self.since} LIMIT ?",
            (_MOST_IN_ORDER + 1,),
        )
        for number, (since, on_purpose) in enumerate(rows):
            if number == _MOST_IN_ORDER:
                return Oldest(first, is_told=False)
            if not on_purpose:
                return Oldest(first, int(since))
        return Oldest(first)

    def _oldest_of_each(self, connection: RestrictedConnection) -> Oldest:
        # Told to order them, SQLite would walk the rows of all tenants in that order.
        tenants = connection.several
        most = _MOST // max(1, len(tenants))
        asked: list[tuple[str, tuple[str | int, ...]]] = [("", (most,))]
        if tenants:
            asked = [(" AND tenant_id = ?", (each, most)) for each in tenants]
        on_purpose = self.on_purpose or "FALSE"
        found = [
            connection.execute(
                f"SELECT min(since), min(CASE WHEN NOT on_purpose THEN since END) FROM "  # noqa: S608
                f"(SELECT {self.since} AS since, {on_purpose} AS on_purpose FROM {self.table}"
                f" WHERE {self.where}{of} LIMIT ?)",
                values,
            ).fetchone()
            for of, values in asked
        ]
        return Oldest(_first(first for first, _ in found), _first(late for _, late in found))


def is_told(connection: sqlite3.Connection) -> bool:
    """Return whether a reader is told of the oldest rows: not one of very many tenants.

    No index has the rows of several tenants in the order of their time, so each is asked for.
    """
    return not isinstance(connection, RestrictedConnection) or not connection.are_too_many


def _first(times: Iterator[int | None]) -> int | None:
    return min((int(each) for each in times if each is not None), default=None)
