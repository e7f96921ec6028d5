"""Numbers by tenant and minute that follow from the rows of other tables.

They are added up in the transaction that writes the rows and the positions behind their records. So
a record that is read again after a crash is not counted twice, and none is left out.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import orjson

from streams.api.rows.table import Row, Table

MINUTE_MS = 60_000
ALL_TENANTS = ""
"""The tenant of the numbers of all tenants together, so that nobody has to add up the others'."""

_AHEAD_MS = 10 * MINUTE_MS
"""What is further ahead of this machine's clock is not counted: its minute would stay too long."""

Added = tuple[int, str, int]
"""When something happened (milliseconds), a number, and how much is added to it."""
Sums = dict[tuple[str, int], dict[str, int]]
"""Numbers by tenant and by when the minute began."""


@dataclass(frozen=True, slots=True)
class Count:
    """What the written rows of a table add to a tally.

    `adds` gets the values of the columns `reads`, and those that the row had before; None if it is
    new. The first of these columns has the newest time of a row. If rows never change, nothing need
    `look_back`.
    """

    table: Table
    reads: tuple[str, ...]
    adds: Callable[[Row, Row | None], Iterable[Added]]
    look_back: bool = True

    def added(
        self, connection: sqlite3.Connection, rows: Iterable[Row | None], since: int
    ) -> Iterator[tuple[str, Added]]:
        """Yield what rows add to the numbers of which tenant, without rows before `since` (ms)."""
        names = self.table.names
        tenant, places = names.index("tenant_id"), [names.index(each) for each in self.reads]
        newest = places[0]
        recent = [row for row in rows if row is not None and row[newest] >= since]
        before = self._before(connection, [row[0] for row in recent])
        for row in recent:
            for added in self.adds(tuple(row[place] for place in places), before.get(row[0])):
                yield row[tenant], added

    def _before(self, connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Row]:
        """Return what the rows of these keys have now."""
        if not self.look_back or not keys:
            return {}
        key, columns = self.table.key_names[0], ", ".join(self.reads)
        found = connection.execute(
            f"SELECT {key}, {columns} FROM {self.table.name}"  # noqa: S608  constants
            f" WHERE {key} IN (SELECT value FROM json_each(?))",
            (orjson.dumps(keys).decode(),),
        )
        return {row[0]: row[1:] for row in found}


@dataclass(frozen=True)
class Tally:
    """A table of numbers by tenant and minute; `at` is when the minute began, in milliseconds.

    A minute is deleted once it began `kept_ms` ago. Of a row that is written several times in one
    batch, the last state counts.
    """

    name: str
    numbers: tuple[str, ...]
    counts: tuple[Count, ...]
    kept_ms: int
    belongs: str = "tenant_id {covered}"
    """SQL: whether a row is of a tenant that the reader may see; `{covered}` are those tenants."""
    has_rowid: bool = False

    @property
    def ddl(self) -> str:
        """SQL that creates the table and its index."""
        columns = ", ".join(f"{number} INTEGER NOT NULL" for number in self.numbers)
        table = f"tenant_id TEXT, at INTEGER, {columns}, PRIMARY KEY (tenant_id, at)"
        return (
            f"CREATE TABLE {self.name} ({table}) WITHOUT ROWID;\n"
            f"CREATE INDEX {self.name}_age ON {self.name} (at);"
        )

    @property
    def expire(self) -> str:
        """SQL that deletes some of the minutes before a moment: the moment, and how many."""
        old = f"SELECT tenant_id, at FROM {self.name} WHERE at < ? LIMIT ?"  # noqa: S608  constants
        return f"DELETE FROM {self.name} WHERE (tenant_id, at) IN ({old})"  # noqa: S608

    def add(
        self,
        connection: sqlite3.Connection,
        written: Mapping[str, Iterable[Row | None]],
        now: int,
    ) -> None:
        """Add what rows count that are about to be written, by table; `now` in milliseconds.

        It belongs to the transaction that writes them.
        """
        since, until = now - self.kept_ms, now + _AHEAD_MS
        sums: Sums = defaultdict(lambda: dict.fromkeys(self.numbers, 0))
        for count in self.counts:
            rows = written.get(count.table.name, ())
            for tenant_id, (at, number, more) in count.added(connection, rows, since):
                if since <= at <= until:
                    minute = at - at % MINUTE_MS
                    sums[ALL_TENANTS, minute][number] += more
                    if tenant_id != ALL_TENANTS:
                        sums[tenant_id, minute][number] += more
        connection.executemany(
            self._addition, [(*key, *numbers.values()) for key, numbers in sums.items()]
        )

    @cached_property
    def _addition(self) -> str:
        marks = ", ".join("?" * (len(self.numbers) + 2))
        added = ", ".join(f"{name} = {name} + excluded.{name}" for name in self.numbers)
        return (
            f"INSERT INTO {self.name} (tenant_id, at, {', '.join(self.numbers)}) VALUES ({marks})"  # noqa: S608
            f" ON CONFLICT (tenant_id, at) DO UPDATE SET {added}"
        )
