"""What an action of bulk acts consists of: which things it selects, and what it does to each."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.api.decisions import known_answer, require_done
from streams.api.fields import Body
from streams.api.operator_state import AppState
from streams.api.rows.json_values import Json
from streams.api.rows.table import Table
from streams.serde.bulk_records import BulkItem
from streams.topology.model import Topology

Condition = tuple[str, list[Any]]
"""SQL that selects rows, and the values of its marks."""


class NoParams(Body):
    """The parameters of an action that needs none."""


@dataclass(frozen=True, slots=True)
class Doing:
    """One item of an act, with what the action needs to deal with it.

    `key` is the same whenever the item is dealt with, and no other item or act has it.
    """

    id: str
    tenant_id: str
    note: str
    params: Body
    key: str


@dataclass(frozen=True, slots=True)
class Dealt:
    """What became of an item: the id of the job that was made, and whether the effect was seen."""

    made: str | None = None
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """A selected row: its id and tenant, and the further columns that an action looks at."""

    id: str
    tenant_id: str
    columns: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """One kind of bulk act.

    `condition` is made of the filter, and `columns` are SQL for the id, the tenant, and what
    `excludes` looks at. `excludes` says why a selected row is left out. `deal` must have the same
    effect if it is repeated for one item, also by two processes at once. It raises a `Refusal` with
    a status below 500 if the item fails.
    """

    name: str
    table: Table
    order: str
    columns: str
    filter: type[Body]
    condition: Callable[[Any], Condition]
    excludes: Callable[[Topology, Any, Row], str | None]
    deal: Callable[[AppState, Doing], Awaitable[Dealt]]
    params: type[Body] = NoParams
    check: Callable[[AppState, Any], None] = lambda _state, _params: None
    """Refuses parameters that cannot be meant."""
    beside: tuple[str, ...] = ()
    """Further topics whose rows `columns` reads: what is selected needs them as new as its own."""

    def rows(self, connection: sqlite3.Connection, chosen: Body, most: int) -> Iterator[Row]:
        """Yield the rows that a filter selects, `most` of them at most."""
        where, values = self.condition(chosen)
        found = connection.execute(
            f"SELECT {self.columns} FROM {self.table.name} WHERE {where}"  # noqa: S608  constants
            f" ORDER BY {self.order} LIMIT ?",
            (*values, most),
        )
        for id_, tenant_id, *columns in found:
            yield Row(id_, tenant_id, tuple(columns))


async def once(state: AppState, ask: Callable[[], Awaitable[Json]]) -> Dealt:
    """Return what became of the state's one command, which `ask` sends unless it is decided.

    Raises:
        Refusal: the command, or the call that would send it, was refused.
    """
    entry = await known_answer(state)
    if entry is not None:
        require_done(entry)
        return Dealt()
    return Dealt(seen=(await ask())["answered"])


def failed(item: BulkItem, reason: str, detail: str) -> BulkItem:
    """Return an item that failed."""
    return BulkItem(item.item, item.number, item.tenant_id, item.digest, "failed", reason, detail)
