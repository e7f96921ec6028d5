"""Finished steps of jobs, and the values that they returned."""

from __future__ import annotations

import sqlite3

from streams.operator.resources.json_values import checked_json
from streams.operator.resources.table import Row, Table
from streams.runtime.processor import Record
from streams.serde.codec import STEP_RESULT
from streams.serde.records import Job


def steps_of(connection: sqlite3.Connection, job: Job) -> tuple[tuple[str, str], ...]:
    """Return names and values (JSON text) of the incarnation's finished steps, in their order."""
    rows = connection.execute(
        "SELECT name, value FROM steps WHERE job_id = ? AND incarnation = ? ORDER BY position",
        (job.job_id, job.incarnation),
    )
    return tuple(rows.fetchall())


def _row(record: Record) -> Row:
    # Steps of one transaction have the same time; their offsets keep the order.
    result = STEP_RESULT.decode(record.value)
    value = checked_json(record.topic, (result.value or "null").encode())
    return *TABLE.row_key(record), record.offset, value


TABLE = Table(
    name="steps",
    topic="dispatcher.checkpoints.changelog",
    key="job_id TEXT, incarnation INTEGER, name TEXT",
    columns="position INTEGER NOT NULL, value TEXT NOT NULL",
    row=_row,
)
