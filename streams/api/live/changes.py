"""What changed beside a job's own record: its progress, its finished steps, and its effects."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from streams.api.effects.table import changed_effects, effect_json
from streams.api.live.frames import Frame, Place
from streams.api.live.position import LEDGER, PROGRESS, STEPS, Position
from streams.api.rows.json_values import parsed
from streams.api.steps.table import step_json, steps_since
from streams.http.moments import rfc3339
from streams.serde.records import Job


def progress(
    connection: sqlite3.Connection, job: Job, partition: int, seen: Position
) -> Iterator[Frame]:
    """Yield the newest progress, if the reader has not seen it."""
    rows = connection.execute(
        "SELECT run_id, at, off, value FROM progress"
        " WHERE job_id = ? AND tenant_id = ? AND off >= ?",
        (job.job_id, job.tenant_id, seen.of(partition, PROGRESS)),
    )
    for run_id, at, off, value in rows:
        told = {
            "job_id": job.job_id,
            "run_id": run_id,
            "at": rfc3339(at),
            "value": parsed(value),
        }
        yield Frame("progress", told, Place(partition, PROGRESS, off))


def steps(
    connection: sqlite3.Connection, job: Job, partition: int, seen: Position
) -> Iterator[Frame]:
    """Yield the finished steps and waits that the reader has not seen."""
    for off, step in steps_since(connection, job, seen.of(partition, STEPS)):
        told = {"job_id": job.job_id, **step_json(step)}
        yield Frame("step", told, Place(partition, STEPS, off))


def effects(
    connection: sqlite3.Connection, job: Job, partition: int, seen: Position
) -> Iterator[Frame]:
    """Yield the effects that changed since the reader saw them.

    One that several jobs share names the job that makes it as its `job_id`, so the job of the
    frame is its `of_job`.
    """
    for off, entry in changed_effects(connection, job, seen.of(partition, LEDGER)):
        told = {"of_job": job.job_id, **effect_json(entry)}
        yield Frame("effect", told, Place(partition, LEDGER, off))
