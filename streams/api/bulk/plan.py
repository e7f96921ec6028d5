"""Plans a bulk act: which things it is about, as the read model has them now.

What arrives later is not taken: the plan is a list of ids.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from dataclasses import dataclass

import orjson

from streams.access.principal import Principal
from streams.api.bulk.action import Action
from streams.api.bulk.bulk_request import BulkRequest
from streams.api.bulk.table import SAMPLES, excluded_json, sample_json
from streams.api.fields import Body
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid
from streams.api.rows.json_values import Json
from streams.serde import ids
from streams.serde.bulk_records import BulkAsked, BulkExcluded, BulkItem

MOST = 100_000
"""A filter may select so many things at most; nothing behind them is read."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The items of an act, what it leaves out, and a position of the read model behind them all.

    `digest` is that of the items, and of no other plan.
    """

    items: tuple[BulkItem, ...]
    excluded: tuple[BulkExcluded, ...]
    positions: dict[str, int]
    digest: bytes

    def json(self) -> Json:
        """Return what a call answers of a plan."""
        return {
            "count": len(self.items),
            "samples": [sample_json(item) for item in self.items[:SAMPLES]],
            "excluded": excluded_json(self.excluded),
        }

    def asked(self, wanted: BulkRequest, principal: Principal) -> BulkAsked:
        """Return the act as it is kept."""
        tenants = principal.tenants
        return BulkAsked(
            wanted.action,
            orjson.dumps(wanted.filter).decode(),
            orjson.dumps(wanted.params).decode(),
            wanted.note or "",
            principal.role,
            None if tenants is None else tuple(sorted(tenants)),
            tenant_named(wanted, principal),
            len(self.items),
            self.excluded,
            self.positions,
            tuple(wanted.ramp),
            wanted.stop_at_failures,
            wanted.digest(),
            self.digest,
        )


def tenant_named(wanted: BulkRequest, principal: Principal) -> str | None:
    """Return the one tenant that an act is about, None if it may be about all.

    Raises:
        Refusal: 422, who asks sees several tenants, but not all, and names none of them.
    """
    named = wanted.filter.get("tenant_id")
    if named is not None and not isinstance(named, str):
        raise invalid("filter.tenant_id", "must be a text")
    if named is not None or principal.tenants is None:
        return named
    if len(principal.tenants) > 1:
        raise invalid("filter.tenant_id", "name one: your token is of several tenants")
    return next(iter(principal.tenants), None)


async def planned(state: AppState, wanted: BulkRequest) -> Plan:
    """Return the plan of an act, from rows that are as new as this call.

    Raises:
        Refusal: 422, there is no such action, filter or parameter, or the filter selects too much;
            503, the read model is late.
    """
    action = wanted.known_action()
    chosen, params = wanted.chosen(action), wanted.parameters(action)
    action.check(state, params)
    topic = action.table.topic
    await state.read_barrier(
        *((t, n) for t in (topic, *action.beside) for n in _partitions(state, t))
    )
    digest = hashlib.sha256(wanted.digest() + ids.new_id("plan").encode()).digest()
    items, excluded = await state.query(
        lambda db: _selected(db, state, action, (chosen, params), digest)
    )
    positions = {str(n): state.follower.folded((topic, n)) for n in _partitions(state, topic)}
    return Plan(items, excluded, positions, digest)


def _partitions(state: AppState, topic: str) -> range:
    return range(state.topology.topics[topic].partitions)


def _selected(
    connection: sqlite3.Connection,
    state: AppState,
    action: Action,
    asked: tuple[Body, Body],
    digest: bytes,
) -> tuple[tuple[BulkItem, ...], tuple[BulkExcluded, ...]]:
    chosen, params = asked
    items, left_out, count = list[BulkItem](), dict[str, list[str]](), Counter[str]()
    for number, row in enumerate(action.rows(connection, chosen, MOST + 1)):
        if number == MOST:
            raise Refusal(
                422,
                "selection-too-wide",
                f"this filter selects more than {MOST} things: narrow it, by tenant or time for "
                "example",
            )
        reason = action.excludes(state.topology, params, row)
        if reason is None:
            items.append(BulkItem(row.id, len(items), row.tenant_id, digest))
            continue
        count[reason] += 1
        if count[reason] <= SAMPLES:
            left_out.setdefault(reason, []).append(row.id)
    excluded = (BulkExcluded(reason, count[reason], tuple(ids)) for reason, ids in left_out.items())
    return tuple(items), tuple(excluded)
