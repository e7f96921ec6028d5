"""Bulk acts and their items: what was asked by whom, how far each act is, what became of each item.

All records of an act are rows of one table, by the kind of their body.
"""

from __future__ import annotations

import sqlite3

from streams.api.rows.bounded import Bounded
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json, parsed
from streams.api.rows.paging import Entry, Listing, Page
from streams.api.rows.table import Row, Table
from streams.bulk.act import KINDS, TOPIC, Act, name_of, plan_of
from streams.bulk.ramp import step
from streams.errors import DecodeError
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.bulk_records import (
    RUNNING,
    STOPPED,
    BulkAsked,
    BulkExcluded,
    BulkItem,
    BulkJoined,
    BulkProgress,
    BulkRecord,
)
from streams.serde.codec import BULK

SAMPLES = 10
_OF_PLAN = "id = ? AND kind = 'item' AND instr(item, ?) = 1"
"""SQL for the items of one plan of an act; another one may have been half-written."""
_NEWEST = 100
"""So many acts are looked at for those that were stopped, the newest ones."""


def act(connection: sqlite3.Connection, bulk_id: str) -> Act:
    """Return what is known of an act; nothing is asked if there is none."""
    known = Act(bulk_id)
    rows = connection.execute(
        "SELECT record FROM bulk WHERE id = ? AND kind <> 'item' ORDER BY kind", (bulk_id,)
    )  # what is asked is the first one
    for (record,) in rows:
        known = known.folded(BULK.decode(record))
    return known


def stopped_acts(connection: sqlite3.Connection) -> Bounded:
    """Return how many of the newest acts stand still because too many of their items failed."""
    rows = connection.execute(
        "SELECT id FROM bulk WHERE kind = 'asked' ORDER BY at DESC, id DESC LIMIT ?", (_NEWEST + 1,)
    ).fetchall()
    stopped = sum(_is_stopped(connection, bulk_id) for (bulk_id,) in rows[:_NEWEST])
    return Bounded(stopped, len(rows) > _NEWEST)


def _is_stopped(connection: sqlite3.Connection, bulk_id: str) -> bool:
    known = Act(bulk_id)
    rows = connection.execute(
        "SELECT record FROM bulk WHERE id = ? AND kind IN ('progress', 'paused', 'cancelled')",
        (bulk_id,),
    )
    for (record,) in rows:
        known = known.folded(BULK.decode(record))
    return known.status == STOPPED


def samples(connection: sqlite3.Connection, known: Act) -> list[Json]:
    """Return the first items of an act."""
    rows = connection.execute(
        f"SELECT record FROM bulk WHERE {_OF_PLAN} ORDER BY number, item LIMIT ?",  # noqa: S608
        (known.bulk_id, _plan(known), SAMPLES),
    )
    found = (BULK.decode(record).body for (record,) in rows)
    return [sample_json(item) for item in found if isinstance(item, BulkItem)]


def items_page(
    connection: sqlite3.Connection,
    bulk_id: str,
    outcome: str | None,
    limit: int,
    cursor: Cursor | None,
) -> Page:
    """Return items in the order in which the act deals with them."""
    behind = (-1, "") if cursor is None else (cursor.at, cursor.id)
    rows = connection.execute(
        f"SELECT number, item, record FROM bulk WHERE {_OF_PLAN}"  # noqa: S608  a constant
        " AND (number, item) > (?, ?) AND (? IS NULL OR outcome = ?)"
        " ORDER BY number, item LIMIT ?",
        (bulk_id, _plan(act(connection, bulk_id)), *behind, outcome, outcome, limit + 1),
    ).fetchall()
    shown = tuple(item_json(BULK.decode(record)) for _, _, record in rows[:limit])
    after = Cursor(*rows[limit - 1][:2]) if len(rows) > limit else None
    return Page(shown, after)


def joined(connection: sqlite3.Connection, bulk_id: str) -> list[Json]:
    """Return who took part in an act, and what each did last."""
    rows = connection.execute(
        "SELECT record FROM bulk WHERE id = ? AND kind = 'joined' ORDER BY at, item", (bulk_id,)
    )
    found = (BULK.decode(record) for (record,) in rows)
    return [
        {"by": each.by, "did": each.body.did, "at": rfc3339(each.at)}
        for each in found
        if isinstance(each.body, BulkJoined)
    ]


def act_json(known: Act, asked: BulkAsked) -> Json:
    """Return an act as lists show it."""
    done = known.progress or BulkProgress(RUNNING)
    dealt_with = done.done + done.asked + done.failed
    return {
        "bulk_id": known.bulk_id,
        "action": asked.action,
        "status": known.status,
        "note": asked.note,
        "tenant_id": asked.tenant_id,
        "asked_at": rfc3339(known.asked_at),
        "asked_by": known.asked_by,
        "filter": parsed(asked.filter),
        "params": parsed(asked.params),
        "count": asked.count,
        "done": done.done,
        "asked": done.asked,
        "failed": done.failed,
        "waiting": max(0, asked.count - dealt_with),
        "step": step(asked.ramp, done.done + done.failed),
        "steps": len(asked.ramp) + 1,
        "ramp": list(asked.ramp),
        "stop_at_failures": asked.stop_at_failures,
        "excluded": excluded_json(asked.excluded),
        "positions": asked.positions,
        "started_at": rfc3339(done.started_at or None),
        "stopped_because": done.because,
        "last_error": done.error,
    }


def excluded_json(excluded: tuple[BulkExcluded, ...]) -> list[Json]:
    """Return what a filter selects and an act leaves out, by reason."""
    return [
        {"reason": each.reason, "count": each.count, "samples": list(each.samples)}
        for each in excluded
    ]


def sample_json(item: BulkItem) -> Json:
    return {"id": item.item, "tenant_id": item.tenant_id}


def item_json(record: BulkRecord) -> Json:
    """Return an item with what became of it; `at` is when that was known."""
    item = record.body
    assert isinstance(item, BulkItem)  # noqa: S101  the query reads no other row
    return {
        **sample_json(item),
        "number": item.number,
        "outcome": item.outcome,
        "reason": item.reason,
        "detail": item.detail,
        "made": item.made,
        "at": rfc3339(record.at),
    }


def _plan(known: Act) -> str:
    """Return what the names of an act's items begin with; of one that is not known, any."""
    return "" if known.asked is None else plan_of(known.asked.items_digest)


def _row(record: Record) -> Row:
    said = BULK.decode(record.value)
    _, kind, of = TABLE.row_key(record)
    body = said.body
    if KINDS[type(body)] != kind or (isinstance(body, BulkItem) and name_of(body) != of):
        raise DecodeError(f"{TOPIC}: the record's key names something else")
    item = body if isinstance(body, BulkItem) else None
    tenant_id = body.tenant_id if isinstance(body, BulkAsked | BulkItem) else None
    number, outcome = (item.number, item.outcome) if item else (None, None)
    return said.bulk_id, kind, of, tenant_id, number, outcome, said.at, record.value


def _listed(connection: sqlite3.Connection, entry: Entry) -> Json:
    asked = BULK.decode(entry.record).body
    assert isinstance(asked, BulkAsked)  # noqa: S101  the listing reads no other row
    return act_json(act(connection, entry.id), asked)


TABLE = Table(
    name="bulk",
    topic=TOPIC,
    key="id TEXT, kind TEXT, item TEXT",
    columns="tenant_id TEXT, number INTEGER, outcome TEXT, at INTEGER NOT NULL, "
    "record BLOB NOT NULL",
    row=_row,
    belongs=(
        "(SELECT a.tenant_id FROM main.bulk a WHERE a.id = bulk.id AND a.kind = 'asked'"
        " AND a.item = '') {covered}"
    ),
    indexes={
        "newest": "(at, id) WHERE kind = 'asked'",
        "items": "(id, number, item) WHERE kind = 'item'",
        "age": "(at)",
    },
    expires=True,
)
LISTING = Listing(TABLE.name, ("/v1/bulk",), _listed, where="kind = 'asked'")
