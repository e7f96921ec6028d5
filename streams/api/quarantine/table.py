"""Signed bodies that did not fit their source: why each is kept, and what became of it."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict

from streams.api.rows.json_values import Json, trace_id
from streams.api.rows.paging import Listing
from streams.api.rows.table import Row, Table, find, status_in
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import QUARANTINED
from streams.serde.records import Quarantined

WAITING = "waiting"
_RELEASED = "released"
IS_WAITING = status_in(WAITING)
"""SQL for bodies that nobody has released."""


def quarantined(connection: sqlite3.Connection, id_: str) -> Quarantined | None:
    """Return one quarantined body, by its event's id."""
    return find(connection, QUARANTINED, "quarantine", id=id_)


def quarantined_json(kept: Quarantined) -> Json:
    """Return the facts about a quarantined body, but not the body itself."""
    return {
        "id": kept.event_id,
        "event_id": kept.event_id,
        "tenant_id": kept.tenant_id,
        "source": kept.source,
        "status": _status(kept),
        "reason": kept.reason,
        "detail": kept.detail,
        "received_at": rfc3339(kept.received_at),
        "payload_hash": kept.payload_hash.hex(),
        "payload_ref": asdict(kept.payload_ref),
        "content_type": kept.content_type,
        "request_id": kept.request_id,
        "headers": kept.headers,
        "trace_id": trace_id(kept.traceparent),
        "released_at": rfc3339(kept.released_at),
        "note": kept.note,
        "released_by": kept.released_by,
        "job_id": kept.job_id,
    }


def _status(kept: Quarantined) -> str:
    return WAITING if kept.released_at is None else _RELEASED


def _row(record: Record) -> Row:
    kept = QUARANTINED.decode(record.value)
    return (
        kept.tenant_id,
        kept.source,
        kept.payload_hash.hex(),
        kept.event_id,
        _status(kept),
        kept.received_at,
        record.value,
    )


TABLE = Table(
    name="quarantine",
    topic="quarantine",
    key="tenant_id TEXT, source TEXT, payload_hash TEXT",
    columns="id TEXT NOT NULL, status TEXT NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    rowid=True,
    indexes={
        "by_id": "(id)",
        "newest": "(at, id)",
        "of_tenant": "(tenant_id, at, id)",
        "waiting": f"(tenant_id) WHERE {IS_WAITING}",
    },
    expires=True,
)
LISTING = Listing(
    TABLE.name,
    ("/v1/quarantine",),
    lambda _, entry: quarantined_json(QUARANTINED.decode(entry.record)),
    {"tenant_id": (), "status": (WAITING, _RELEASED)},
    moves=True,
)
FOR_A_PERSON = {"status": WAITING}
"""The filters of the list of bodies that nobody has released."""
