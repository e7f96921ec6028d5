"""Pending jobs for which no lease can be made, by partition, pool and type, and why."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Listing
from streams.api.rows.table import Row, Table
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import HELD
from streams.serde.job_states import PENDING
from streams.serde.records import Held, Job


def of_job(connection: sqlite3.Connection, job: Job) -> Held | None:
    """Return why no lease can be made for a pending job; its tenant's own reason comes first."""
    if job.status != PENDING:
        return None
    row = connection.execute(
        "SELECT h.record FROM jobs j JOIN held h ON h.part = j.part AND h.pool = j.pool"
        " AND h.type = j.type AND h.tenant_id IN ('', j.tenant_id)"
        " WHERE j.job_id = ? ORDER BY h.tenant_id DESC LIMIT 1",
        (job.job_id,),
    ).fetchone()
    return None if row is None else HELD.decode(row[0])


def held_reason(held: Held) -> Json:
    """Return why no lease can be made, since when, and the remedy."""
    return {"reason": held.reason, "since": rfc3339(held.since), "detail": held.detail}


def held_json(held: Held) -> Json:
    """Return the jobs of one pool and type that wait in one partition, and how many they were."""
    return {
        "partition": held.partition,
        "pool": held.pool,
        "type": held.type,
        "tenant_id": held.tenant_id,
        "jobs": held.jobs,
        **held_reason(held),
    }


def _row(record: Record) -> Row:
    held = HELD.decode(record.value)
    key = held.partition, held.pool, held.type, held.tenant_id or ""
    return *key, "/".join(map(str, key)), held.reason, held.since, record.value


TABLE = Table(
    name="held",
    topic="jobs.held",
    key="part INTEGER, pool TEXT, type TEXT, tenant_id TEXT",
    columns="id TEXT NOT NULL, reason TEXT NOT NULL, since INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    belongs="(tenant_id {covered} OR tenant_id = '')",  # why a job waits, that is all tenants'
    rowid=True,
    indexes={"newest": "(since, id)"},
)
LISTING = Listing(
    TABLE.name,
    ("/v1/held",),
    lambda _, entry: held_json(HELD.decode(entry.record)),
    order=("since", "id"),
    moves=True,
)
