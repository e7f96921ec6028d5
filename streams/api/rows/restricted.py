"""Reading connections on which only the rows of some tenants exist.

Each table is hidden behind a temporary view of its own name, which leaves other tenants' rows out.
So no query has to think of who asks: lists, counts and look-ups by id all find what is theirs, and
another tenant's row is as unknown as one that never was.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from streams.api.rows.derived import Derived
from streams.api.rows.table import Table
from streams.api.rows.tally import Tally

MOST_ASKED_APART = 50

_HINT = re.compile(r"\bINDEXED BY \w+")
_ONE, _SEVERAL = "= (SELECT tenant_id FROM temp.covered)", "IN (SELECT tenant_id FROM temp.covered)"


class RestrictedConnection(sqlite3.Connection):
    """A connection to the read model; `cover` says whose rows it has, and at first nobody's."""

    def restrict(self, tables: Iterable[Table | Tally | Derived]) -> None:
        """Hide these tables behind views without a row; call it once, after the opening."""
        super().execute("PRAGMA temp_store = MEMORY")
        super().execute("CREATE TEMP TABLE covered (tenant_id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._tables = tuple(tables)
        self._covered: frozenset[str] | None = None
        self._is_of_one = False
        self._make_views(_SEVERAL)

    def cover(self, tenants: frozenset[str]) -> None:
        """Show the rows of these tenants alone from now on."""
        if tenants == self._covered:
            return
        self._covered = None
        super().execute("DELETE FROM temp.covered")
        self.executemany("INSERT INTO temp.covered VALUES (?)", [(each,) for each in tenants])
        is_of_one = len(tenants) == 1
        if is_of_one != self._is_of_one:
            # Of one tenant, an index by tenant and time gives a list its order, too.
            self._make_views(_ONE if is_of_one else _SEVERAL)
            self._is_of_one = is_of_one
        self._covered = tenants

    @property
    def covered(self) -> frozenset[str]:
        """The tenants whose rows it has."""
        return self._covered or frozenset()

    @property
    def several(self) -> tuple[str, ...]:
        """The covered tenants if a list should ask for each of them; empty for one, or very many.

        SQLite has no index by which rows of several tenants come in the order of their time.
        """
        covered = self.covered
        return tuple(sorted(covered)) if 1 < len(covered) <= MOST_ASKED_APART else ()

    @property
    def are_too_many(self) -> bool:
        """Whether the covered tenants are too many for a question to each of them."""
        return len(self._covered or ()) > MOST_ASKED_APART

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Run a statement; an index that it names is the table's, and no view has one."""
        return super().execute(_without_hints(sql), *values)

    def _make_views(self, covered: str) -> None:
        """Hide each table anew: all of them at once, so that an error leaves none without a view.

        A table without a view would show the rows of all tenants.
        """
        super().execute("BEGIN")
        try:
            for table in self._tables:
                super().execute(f"DROP VIEW IF EXISTS temp.{table.name}")
                super().execute(_view(table, covered))
        except BaseException:
            super().execute("ROLLBACK")
            raise
        super().execute("COMMIT")


def _view(table: Table | Tally | Derived, covered: str) -> str:
    condition = table.belongs.format(covered=covered)
    columns = "rowid AS rowid, *" if table.has_rowid else "*"
    return f"CREATE TEMP VIEW {table.name} AS SELECT {columns} FROM main.{table.name} WHERE {condition}"  # noqa: S608  E501  constants


@lru_cache(maxsize=1024)
def _without_hints(sql: str) -> str:
    return _HINT.sub("", sql)
