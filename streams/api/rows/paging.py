"""Pages of a list: newest first, by time and id, bounded in rows and in bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from streams.access.authentication import Authentication
from streams.access.permissions import READ, Permission
from streams.access.principal import Principal
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.restricted import RestrictedConnection
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends before the record with which it would be larger; it has one record at least."""

_NONE: Mapping[str, str] = MappingProxyType({})

FilterValues = Mapping[str, str | int | None]
"""Filters of a list by name; one that is None does not restrict."""

Filters = Mapping[str, Collection[str]]
"""Columns by which a list can be filtered, and the values that each allows (none: any)."""


class Entry(NamedTuple):
    """A row as a list reads it; `at` is in milliseconds."""

    at: int
    id: str
    record: bytes


Rows = tuple[list[Entry], Cursor | None]
"""The rows of a page, and the cursor behind the last of them, None at the end."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The page that a client asks for; a filter that is None does not restrict."""

    limit: int
    cursor: Cursor | None = None
    filters: FilterValues = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """Items in the list's order; `next` continues behind the last, None at the end.

    `beside` are members of the answer beside the list.
    """

    items: tuple[Json, ...]
    next: Cursor | None = None
    beside: Mapping[str, object] = field(default_factory=dict)


class Operator(Protocol):
    """What a list may show beside its rows."""

    @property
    def topology(self) -> Topology: ...
    @property
    def vault(self) -> Vault: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def authentication(self) -> Authentication: ...


@dataclass(frozen=True, slots=True)
class PagedList:
    """A list, at each of `paths`, whose pages a function reads."""

    name: str
    """The name of the list in the answer."""
    paths: tuple[str, ...]
    read: Callable[[sqlite3.Connection, PageQuery, Operator], Page]
    filters: Filters = field(default_factory=lambda: {"tenant_id": ()})
    times: Collection[str] = ()
    by: str = ""
    needs: Permission = READ

    def shown(self, connection: sqlite3.Connection, query: PageQuery, operator: Operator) -> Page:
        """Return the items behind the query's cursor."""
        return self.read(connection, query, operator)


@dataclass(frozen=True, slots=True)
class Listing:
    """A list over one table, at each of `paths`; `order` names its columns of time and id."""

    name: str
    """The name of the table, and of the list in the answer."""
    paths: tuple[str, ...]
    item: Callable[[sqlite3.Connection, Entry], Json]
    filters: Filters = field(default_factory=lambda: {"tenant_id": ()})
    order: tuple[str, str] = ("at", "id")
    moves: bool = False
    """Whether the time of an item changes, and moves it to the front. The table needs a rowid."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """SQL with one `?`, in place of `column = ?`, of filters that are no such column."""
    marks: Mapping[str, Callable[[str], int]] = field(default_factory=dict)
    """What stands in the column for the value of a filter, where that is not the value itself."""
    where: str = "TRUE"
    """SQL that every row of the list satisfies."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Values of filters that a query does not name."""
    times: Collection[str] = ()
    """Filters that a client gives as RFC 3339 times; a query has them in milliseconds."""
    by: str = ""
    """The filter that names who acted: whoever is no administrator sees what they did themselves.
    """
    needs: Permission = READ

    def shown(self, connection: sqlite3.Connection, query: PageQuery, _: Operator) -> Page:
        """Return a page without rows of all tenants together, if the reader has not all tenants."""
        if not isinstance(connection, RestrictedConnection):
            return self.page(connection, query)
        return replace(self, where=f"{self.where} AND tenant_id <> ''").page(connection, query)

    def page(self, connection: sqlite3.Connection, query: PageQuery) -> Page:
        """Return the items behind the query's cursor."""
        query = replace(query, filters=self._filters(query.filters))
        rows, after = (self._newest_and_moved if self.moves else self._newest)(connection, query)
        return Page(tuple(self.item(connection, row) for row in rows), after)

    def count(self, connection: sqlite3.Connection, filters: FilterValues = _NONE) -> int:
        """Return how many items the list has with these filters, on all pages together."""
        where, values = self.condition(filters)
        (found,) = connection.execute(
            f"SELECT count(*) FROM {self.name} WHERE {where}",  # noqa: S608  names are constants
            values,
        ).fetchone()
        return int(found)

    def condition(self, filters: FilterValues) -> tuple[str, list[Any]]:
        """Return the SQL that these filters make, and the values of its marks."""
        query = PageQuery(0, filters=self._filters(filters))
        where, values = _conditions(self.order, query, self.conditions)
        return " AND ".join((self.where, *where)), values

    def _newest(self, connection: sqlite3.Connection, query: PageQuery) -> Rows:
        return newest(connection, self.name, self.order, query, self.conditions, self.where)

    def _newest_and_moved(self, connection: sqlite3.Connection, query: PageQuery) -> Rows:
        """As `_newest`; behind the last row come those written since the first page was read.

        An item that moves to the front during a walk would be on no page otherwise. SQLite gives a
        row that is written again the next higher rowid. So such an item may be on two pages.
        """
        cursor = query.cursor
        if cursor is not None and cursor.seen is not None and not cursor.id:
            return self._written_since(connection, query)
        seen = _last_written(connection, self.name) if cursor is None else cursor.seen
        rows, after = self._newest(connection, query)
        if after is not None:
            return rows, replace(after, seen=seen)
        if seen is None or _last_written(connection, self.name) <= seen:
            return rows, None
        return rows, Cursor(0, "", seen)

    def _written_since(self, connection: sqlite3.Connection, query: PageQuery) -> Rows:
        """Return the rows written since the walk has seen the table, in that order."""
        where, values = _conditions(self.order, replace(query, cursor=None), self.conditions)
        seen = query.cursor.seen if query.cursor else 0
        found = connection.execute(
            f"SELECT rowid, {', '.join(self.order)}, record FROM {self.name}"  # noqa: S608  names are constants
            f" WHERE {' AND '.join((self.where, *where))} AND rowid > ? ORDER BY rowid LIMIT ?",
            (*values, seen, query.limit + 1),
        )
        rows, size = list[Entry](), 0
        for rowid, *row in found:
            size += len(row[2])
            if len(rows) == query.limit or (rows and size > PAGE_BYTES):
                return rows, Cursor(0, "", seen)
            rows.append(Entry(*row))
            seen = rowid
        return rows, None

    def _filters(self, asked: FilterValues) -> FilterValues:
        given = {**self.defaults, **{k: value for k, value in asked.items() if value is not None}}
        return given | {k: mark(str(given[k])) for k, mark in self.marks.items() if k in given}


def newest(
    connection: sqlite3.Connection,
    table: str,
    order: tuple[str, str],
    query: PageQuery,
    conditions: Mapping[str, str] = _NONE,
    only: str = "TRUE",
) -> Rows:
    """Return the rows behind a query's cursor."""
    at, id_ = order
    where, values = _conditions(order, query, conditions)
    sql = (
        f"SELECT {at}, {id_}, record FROM {table} WHERE {' AND '.join((only, *where))}",  # noqa: S608  names are constants
        f" ORDER BY {at} DESC, {id_} DESC LIMIT ?",
    )
    found = _in_order(connection, sql, values, query)
    rows, size = list[Entry](), 0
    for row in map(Entry._make, found):
        size += len(row.record)
        if len(rows) == query.limit or (rows and size > PAGE_BYTES):
            return rows, Cursor(rows[-1].at, rows[-1].id)
        rows.append(row)
    return rows, None


def _in_order(
    connection: sqlite3.Connection, sql: tuple[str, str], values: Sequence[Any], query: PageQuery
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the rows of a list; if the reader has several tenants, from a query for each."""
    limit = query.limit + 1
    several = connection.several if isinstance(connection, RestrictedConnection) else ()
    if not several or query.filters.get("tenant_id") is not None:
        return iter(connection.execute("".join(sql), (*values, limit)))
    of_each = " AND tenant_id = ?".join(sql)
    lists = [connection.execute(of_each, (*values, tenant, limit)) for tenant in several]
    return merge(*lists, key=itemgetter(0, 1), reverse=True)


def _last_written(connection: sqlite3.Connection, table: str) -> int:
    row = connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()  # noqa: S608  a constant
    return row[0] or 0


def _conditions(
    order: tuple[str, str], query: PageQuery, sql: Mapping[str, str]
) -> tuple[list[str], list[Any]]:
    given = {name: value for name, value in query.filters.items() if value is not None}
    conditions = [sql.get(name, f"{name} = ?") for name in given]
    values = list[Any](given.values())
    if query.cursor is not None:
        conditions.append(f"({order[0]}, {order[1]}) < (?, ?)")
        values += [query.cursor.at, query.cursor.id]
    return conditions, values
