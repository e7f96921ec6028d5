"""How causes stand, as one reader sees them: over all tenants, one tenant, or some.

The rows of causes are counted for each tenant, and once for all of them. So whoever sees all
tenants or one reads one row of a cause. Whoever sees some of them gets a sum of a few rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

from streams.api.causes.counted_table import EVERYBODY
from streams.api.causes.decision import IGNORED, OPEN, RESOLVED, STATES, State
from streams.api.rows.cursor import Cursor
from streams.api.rows.paging import FilterValues
from streams.api.rows.restricted import RestrictedConnection

FIRST_TENANTS = 10
_MOST_LOOKED_AT = 2_000
"""A page ends after so many rows, also if few of them are what the filters select."""
_COLUMNS = "id, tenant_id, letters, open, tenants, first_at, last_at, decision, decided_at, until"


class Counted(NamedTuple):
    """A row of `causes`; times in milliseconds."""

    id: str
    tenant_id: str
    letters: int
    open: int
    tenants: int
    first_at: int
    last_at: int
    decision: State | None
    decided_at: int | None
    until: int | None

    def state(self, now: int) -> State:
        """Return how it stands at `now`, after its newest letter."""
        if self.decision == IGNORED and (self.until is None or self.until > now):
            return IGNORED
        is_over = self.decision == RESOLVED and self.last_at <= (self.decided_at or 0)
        return RESOLVED if is_over else OPEN

    @property
    def came_back(self) -> bool:
        """Whether a letter has come after it was resolved."""
        return self.decision == RESOLVED and self.last_at > (self.decided_at or 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """A cause as a reader sees it: its rows, the one with the newest letter first."""

    rows: tuple[Counted, ...]
    now: int

    @property
    def newest(self) -> Counted:
        return self.rows[0]

    @property
    def id(self) -> str:
        return self.newest.id

    @property
    def letters(self) -> int:
        return sum(row.letters for row in self.rows)

    @property
    def open(self) -> int:
        return sum(row.open for row in self.rows)

    @property
    def first_at(self) -> int:
        return min(row.first_at for row in self.rows)

    @property
    def tenants(self) -> int:
        """How many tenants it hit."""
        if self.newest.tenant_id == EVERYBODY:
            return self.newest.tenants
        return sum(row.tenant_id != "" for row in self.rows)

    @property
    def decided(self) -> Counted:
        """The row whose state is that of the whole: an open one, otherwise an ignored one."""
        order = (OPEN, IGNORED, RESOLVED)
        return min(self.rows, key=lambda row: order.index(row.state(self.now)))

    @property
    def state(self) -> State:
        return self.decided.state(self.now)

    @property
    def came_back(self) -> bool:
        return any(row.came_back for row in self.rows)


def readers(connection: sqlite3.Connection, filters: FilterValues) -> tuple[str, ...]:
    """Return whose rows a reader sees: `EVERYBODY` for a reader of all tenants."""
    wanted = filters.get("tenant_id")
    if wanted is not None:
        return (str(wanted),)
    if isinstance(connection, RestrictedConnection):
        return tuple(sorted(connection.covered))
    return (EVERYBODY,)


def standing(
    connection: sqlite3.Connection, whose: Sequence[str], cause_id: str, now: int
) -> Standing | None:
    """Return how a cause stands; None if it has no letter that the reader sees."""
    one = " AND tenant_id = ?" if len(whose) == 1 else ""
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM causes WHERE id = ?{one}",  # noqa: S608  constants
        (cause_id, *whose[:1]) if one else (cause_id,),
    )
    rows = sorted(map(Counted._make, found), key=lambda r: (-r.last_at, r.tenant_id))
    return Standing(tuple(rows), now) if rows else None


def page(
    connection: sqlite3.Connection,
    filters: FilterValues,
    limit: int,
    cursor: Cursor | None,
    now: int,
) -> tuple[list[Standing], Cursor | None]:
    """Return causes whose newest letter is the newest, and where the next page begins."""
    whose, found, at = readers(connection, filters), list[Standing](), cursor
    for number, (last_at, cause_id, tenant) in enumerate(
        _candidates(connection, whose, filters, cursor, now)
    ):
        if len(found) == limit or number == _MOST_LOOKED_AT:
            return found, at
        at = Cursor(last_at, cause_id)
        known = standing(connection, whose, cause_id, now)
        is_first = known is not None and known.newest.tenant_id == tenant
        if known and is_first and filters.get("state") in (None, known.state):
            found.append(known)
    return found, None


def tenants_of(connection: sqlite3.Connection, known: Standing) -> list[str]:
    """Return the first tenants that a cause hit, by name."""
    if known.newest.tenant_id != EVERYBODY:
        names = sorted(row.tenant_id for row in known.rows if row.tenant_id)
        return names[:FIRST_TENANTS]
    rows = connection.execute(
        "SELECT tenant_id FROM causes WHERE id = ? AND tenant_id NOT IN ('', ?)"
        " ORDER BY tenant_id LIMIT ?",
        (known.id, EVERYBODY, FIRST_TENANTS),
    )
    return [tenant_id for (tenant_id,) in rows]


def counts(
    connection: sqlite3.Connection, known: Standing, width: int, since: int
) -> dict[int, int]:
    """Return how many letters came in each bucket of a width, by its beginning."""
    found = dict[int, int]()
    for row in known.rows:
        rows = connection.execute(
            "SELECT at, letters FROM cause_counts"
            " WHERE id = ? AND tenant_id = ? AND width = ? AND at >= ?",
            (known.id, row.tenant_id, width, since),
        )
        for at, letters in rows:
            found[at] = found.get(at, 0) + letters
    return found


def _candidates(
    connection: sqlite3.Connection,
    whose: Sequence[str],
    filters: FilterValues,
    cursor: Cursor | None,
    now: int,
) -> Iterator[tuple[int, str, str]]:
    """Yield time, id and tenant of the rows that may be causes of the list, newest first.

    Of a cause with rows of several tenants, they yield each. The state of such a cause depends on
    all of its rows, so it is no condition of the queries.
    """
    state = filters.get("state") if len(whose) == 1 else None
    lists = [
        _rows(connection, tenant, condition, filters.get("job_type"), cursor)
        for tenant in whose
        for condition in _conditions(state, now)
    ]
    return merge(*lists, key=itemgetter(0, 1), reverse=True)


def _conditions(state: object, now: int) -> Iterable[tuple[str, tuple[Any, ...]]]:
    """Return conditions of which one holds for a row in a state, or in any state."""
    match state:
        case None:
            return [(" AND state = ?", (each,)) for each in STATES]
        case "open":  # also what was ignored until now
            return [(" AND state = ?", (OPEN,)), (" AND state = ? AND until <= ?", (IGNORED, now))]
        case "ignored":
            return [(" AND state = ? AND until > ?", (IGNORED, now))]
    return [(" AND state = ?", (RESOLVED,))]


def _rows(
    connection: sqlite3.Connection,
    tenant: str,
    condition: tuple[str, tuple[Any, ...]],
    job_type: object,
    cursor: Cursor | None,
) -> Iterator[tuple[int, str, str]]:
    where, values = condition
    if job_type is not None:
        where, values = f"{where} AND type = ?", (*values, job_type)
    if cursor is not None:
        where, values = f"{where} AND (last_at, id) < (?, ?)", (*values, cursor.at, cursor.id)
    return iter(
        connection.execute(
            f"SELECT last_at, id, tenant_id FROM causes WHERE tenant_id = ?{where}"  # noqa: S608  constants
            " ORDER BY last_at DESC, id DESC",
            (tenant, *values),
        )
    )
