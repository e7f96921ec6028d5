"""The newest progress that a run of each job reported."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import checked_json
from streams.api.rows.table import Row, Table
from streams.runtime.processor import Record
from streams.serde.codec import PROGRESS
from streams.serde.records import Job


def progress_of(connection: sqlite3.Connection, job: Job) -> str | None:
    """Return the newest progress as JSON text."""
    row = connection.execute(
        "SELECT value FROM progress WHERE job_id = ? AND tenant_id = ?",
        (job.job_id, job.tenant_id),
    ).fetchone()
    return row[0] if row else None


def _row(record: Record) -> Row:
    said = PROGRESS.decode(record.value)
    value = checked_json(record.topic, said.value.encode())
    return said.job_id, said.tenant_id, said.run_id, said.at, record.offset, value


TABLE = Table(
    name="progress",
    topic="jobs.progress",
    key="job_id TEXT",
    columns="tenant_id TEXT NOT NULL, run_id TEXT NOT NULL, at INTEGER NOT NULL, "
    "off INTEGER NOT NULL, value TEXT NOT NULL",
    row=_row,
    indexes={"by_age": "(at)"},
    expires=True,
)
