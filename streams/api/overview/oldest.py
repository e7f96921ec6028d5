"""Since when the oldest of some rows has waited."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.rows.restricted import RestrictedConnection

_MOST = 1_000
"""So many rows of a reader's tenants are looked at, of all its tenants together."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows that wait at a stage: those of a table for which `where` holds.

    `since` is the column with the time (ms) from which a row waits, and `index` has all waiting
    rows with it. Another index must have the waiting rows of a tenant in the order of their making.
    """

    table: str
    where: str
    since: str
    index: str

    def oldest(self, connection: sqlite3.Connection) -> int | None:
        """Return since when the first row waits; None if none waits.

        To a reader of some tenants, it is the first among those that were made first.
        """
        if isinstance(connection, RestrictedConnection):
            return self._oldest_of_each(connection)
        (found,) = connection.execute(
            f"SELECT min({self.since}) FROM {self.table} INDEXED BY {self.index}"  # noqa: S608  constants
            f" WHERE {self.where}"
        ).fetchone()
        return None if found is None else int(found)

    def _oldest_of_each(self, connection: RestrictedConnection) -> int | None:
        # Told to order them, SQLite would walk the rows of all tenants in that order.
        tenants = connection.several
        most = _MOST // max(1, len(tenants))
        asked: list[tuple[str, tuple[str | int, ...]]] = [("", (most,))]
        if tenants:
            asked = [(" AND tenant_id = ?", (each, most)) for each in tenants]
        found = [
            connection.execute(
                f"SELECT min({self.since}) FROM (SELECT {self.since} FROM {self.table}"  # noqa: S608
                f" WHERE {self.where}{of} LIMIT ?)",
                values,
            ).fetchone()[0]
            for of, values in asked
        ]
        return min((int(each) for each in found if each is not None), default=None)


def is_told(connection: sqlite3.Connection) -> bool:
    """Return whether a reader is told of the oldest rows: not one of very many tenants.

    No index has the rows of several tenants in the order of their time, so each is asked for.
    """
    return not isinstance(connection, RestrictedConnection) or not connection.are_too_many
