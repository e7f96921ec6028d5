"""Dropped duplicates: of which events, how many, and when the last one came."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Listing
from streams.api.rows.table import Row, Table
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde import ids
from streams.serde.codec import DUPLICATE
from streams.serde.records import Duplicate, Job


def of_job(connection: sqlite3.Connection, job: Job) -> Duplicate | None:
    """Return the duplicates of a job's event within the window that the job began."""
    if job.event is None:
        return None
    # Duplicates of an earlier window belong to an earlier incarnation; a replay shows them all.
    since = job.event_time if job.replay_of is None else 0
    key = ids.fingerprint(job.tenant_id, job.event.source, job.event.dedup_key)
    return of_event(connection, job.tenant_id, key, since)


def of_event(
    connection: sqlite3.Connection, tenant_id: str, fingerprint: bytes, since: int
) -> Duplicate | None:
    """Return the duplicates of an event if the last one came at `since` (milliseconds) or later."""
    row = connection.execute(
        "SELECT record FROM duplicates WHERE fingerprint = ? AND tenant_id = ? AND at >= ?",
        (fingerprint.hex(), tenant_id, since),
    ).fetchone()
    return None if row is None else DUPLICATE.decode(row[0])


def duplicate_json(fingerprint: str, counted: Duplicate) -> Json:
    """Return an event whose deliveries were dropped, with the id of the last one's envelope."""
    return {
        "fingerprint": fingerprint,
        "tenant_id": counted.tenant_id,
        "source": counted.source,
        "event_type": counted.event_type,
        "count": counted.count,
        "first_at": rfc3339(counted.first_at),
        "last_at": rfc3339(counted.last_at),
        "last_event_id": counted.last_event_id,
    }


def _hex(key: bytes) -> list[str]:
    return [key.hex()]


def _row(record: Record) -> Row:
    counted = DUPLICATE.decode(record.value)
    times = counted.first_at, counted.last_at
    return *_hex(record.key or b""), counted.tenant_id, counted.count, *times, record.value


TABLE = Table(
    name="duplicates",
    topic="duplicates",
    key="fingerprint TEXT",
    columns="tenant_id TEXT NOT NULL, dropped INTEGER NOT NULL, first_at INTEGER NOT NULL, "
    "at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={"newest": "(at, fingerprint)", "of_tenant": "(tenant_id, at, fingerprint)"},
    split=_hex,
    expires=True,
)
LISTING = Listing(
    TABLE.name,
    ("/v1/duplicates",),
    lambda _, entry: duplicate_json(entry.id, DUPLICATE.decode(entry.record)),
    order=("at", "fingerprint"),
    moves=True,
)
