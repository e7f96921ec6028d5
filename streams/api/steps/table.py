"""Finished steps and waits of jobs, and what they left."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import get_args

from streams.api.rows.json_values import Json, checked_json, parsed
from streams.api.rows.table import Row, Table
from streams.artifacts.stand_in import MARK
from streams.runtime.processor import Record
from streams.serde.codec import STEP_RESULT
from streams.serde.records import Job, WaitKind
from streams.serde.step_ids import HEARTBEAT, HEARTBEAT_ID

_STEP = "step"
_COLUMNS = "name, value, kind, error, changed_args, code"


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step or wait; `name` is its id, `value` is JSON text."""

    name: str
    value: str
    kind: str = _STEP
    error: str | None = None
    changed_args: bool = False
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """When a step or wait had finished, in milliseconds, and how."""

    name: str
    kind: str
    error: str | None
    at: int

    @property
    def is_step(self) -> bool:
        return self.kind == _STEP


def finished(connection: sqlite3.Connection, job: Job) -> list[Finished]:
    """Return when the incarnation's steps and waits had finished, in their order."""
    kinds = (_STEP, *get_args(WaitKind))
    rows = connection.execute(
        "SELECT name, kind, error, at FROM steps WHERE job_id = ? AND incarnation = ?"  # noqa: S608
        f" AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY position",
        (job.job_id, job.incarnation, *kinds),
    )
    return [Finished(*row) for row in rows]


def steps_of(connection: sqlite3.Connection, job: Job) -> tuple[Step, ...]:
    """Return what the incarnation's finished steps left, in their order."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM steps "  # noqa: S608  constants
        "WHERE job_id = ? AND incarnation = ? AND kind <> ? ORDER BY position",
        (job.job_id, job.incarnation, HEARTBEAT),
    )
    return tuple(map(_step, rows))


def steps_since(
    connection: sqlite3.Connection, job: Job, offset: int, most: int
) -> list[tuple[int, str]]:
    """Return what finished from an offset of their topic on, by name, each with its offset.

    Of more than `most`, the first ones.
    """
    rows = connection.execute(
        "SELECT position, name FROM steps "
        "WHERE job_id = ? AND incarnation = ? AND position >= ? AND kind <> ? "
        "ORDER BY position LIMIT ?",
        (job.job_id, job.incarnation, offset, HEARTBEAT, most),
    )
    return rows.fetchall()


def step(connection: sqlite3.Connection, job: Job, name: str) -> Step:
    """Return a finished step or wait that is there."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM steps WHERE job_id = ? AND incarnation = ? AND name = ?",  # noqa: S608  constants
        (job.job_id, job.incarnation, name),
    ).fetchone()
    return _step(row)


def heartbeat_of(connection: sqlite3.Connection, job: Job) -> str | None:
    """Return the newest details that a run of the incarnation kept by heartbeat, as JSON text."""
    row = connection.execute(
        "SELECT value FROM steps WHERE job_id = ? AND incarnation = ? AND name = ?",
        (job.job_id, job.incarnation, HEARTBEAT_ID),
    ).fetchone()
    return row[0] if row else None


def any_has_artifact_of(connection: sqlite3.Connection, tenant_id: str, job_id: str) -> bool:
    """Whether a job of the tenant has a step or wait whose large value is an artifact of another.

    A job that is purged has no steps any more. `+` keeps SQLite from all jobs of the tenant.
    """
    row = connection.execute(
        "SELECT 1 FROM steps JOIN jobs USING (job_id) "
        "WHERE steps.artifact_of = ? AND +jobs.tenant_id = ? LIMIT 1",
        (job_id, tenant_id),
    )
    return row.fetchone() is not None


def step_json(step: Step) -> Json:
    """Return a step as the API shows it."""
    return {
        "name": step.name,
        "kind": step.kind,
        "value": parsed(step.value),
        "error": step.error,
        "changed_args": step.changed_args,
        "code": step.code,
    }


def _step(row: Row) -> Step:
    name, value, kind, error, changed_args, code = row
    return Step(name, value, kind, error, bool(changed_args), code)


def _row(record: Record) -> Row:
    # Steps of one transaction have the same time; their offsets keep the order.
    left = STEP_RESULT.decode(record.value)
    value = checked_json(record.topic, (left.value or "null").encode())
    error = None if left.raises is None else f"{left.raises}: {left.message}"
    told = (value, left.kind, error, int(left.changed_args), left.code)
    return *TABLE.row_key(record), record.offset, record.timestamp, *told, _artifact_of(value)


def _artifact_of(value: str) -> str | None:
    """The job whose artifact stands in the place of a value, if one does."""
    reference = parsed(value)[MARK] if value.startswith(f'{{"{MARK}":') else None
    of = reference.get("of") if isinstance(reference, dict) else None
    return of if isinstance(of, str) else None


TABLE = Table(
    name="steps",
    topic="dispatcher.checkpoints.changelog",
    key="job_id TEXT, incarnation INTEGER, name TEXT",
    columns="position INTEGER NOT NULL, at INTEGER NOT NULL, value TEXT NOT NULL, "
    "kind TEXT NOT NULL, error TEXT, changed_args INTEGER NOT NULL, code TEXT, artifact_of TEXT",
    row=_row,
    indexes={"of_artifact": "(artifact_of) WHERE artifact_of IS NOT NULL"},
    belongs=("(SELECT j.tenant_id FROM main.jobs j WHERE j.job_id = steps.job_id) {covered}"),
)
