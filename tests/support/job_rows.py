"""Rows of jobs in the operator's read model, without a broker."""

from __future__ import annotations

import sqlite3

from streams.api.read_model.projections import Changes, project
from streams.runtime.processor import Record
from streams.serde.codec import JOB
from streams.serde.records import Job


def fold(connection: sqlite3.Connection, *jobs: Job) -> None:
    """Show jobs as the read model does once it has read their records."""
    batch: dict[str, Changes] = {}
    for job in jobs:
        project(Record("jobs", 0, 0, 0, b"", JOB.encode(job)), batch)
    for changes in batch.values():
        changes.write(connection)
