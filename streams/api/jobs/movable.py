"""Waiting jobs, selected for a move to another pool."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.rows.cursor import Cursor
from streams.api.rows.matched import Matched, matched
from streams.api.rows.table import status_in
from streams.serde.job_states import MOVABLE


@dataclass(frozen=True, slots=True)
class WaitingFilter:
    """Jobs of a type that wait in another pool than `pool`; of one tenant, or of all (None)."""

    type: str
    pool: str
    tenant_id: str | None


@dataclass(frozen=True, slots=True)
class MovableJobs:
    """Job ids with their tenants, oldest first.

    `matched` also counts those on later pages, up to a bound.
    """

    jobs: tuple[tuple[str, str], ...]
    matched: Matched
    next: Cursor | None


def selected(
    connection: sqlite3.Connection, wanted: WaitingFilter, limit: int, cursor: Cursor | None
) -> MovableJobs:
    """Return the next jobs behind a cursor."""
    conditions = ["type = ?", status_in(*MOVABLE), "pool <> ?"]
    values: list[str | int] = [wanted.type, wanted.pool]
    if wanted.tenant_id is not None:
        conditions.append("tenant_id = ?")
        values.append(wanted.tenant_id)
    if cursor is not None:
        conditions.append("(created_at, job_id) > (?, ?)")
        values += [cursor.at, cursor.id]
    where = " AND ".join(conditions)
    found = matched(connection, "jobs", where, values)
    rows = connection.execute(
        f"SELECT job_id, tenant_id, created_at FROM jobs WHERE {where}"  # noqa: S608
        " ORDER BY created_at, job_id LIMIT ?",
        (*values, limit),
    ).fetchall()
    after = Cursor(rows[-1][2], rows[-1][0]) if found.count > len(rows) else None
    return MovableJobs(tuple((id_, tenant) for id_, tenant, _ in rows), found, after)
