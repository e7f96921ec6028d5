"""Jobs as the dispatcher last wrote them.

A query about one tenant names it in SQL (G3), so that no row of another tenant is ever read.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import get_args

from streams.operator.resources import duplicates, held, paging
from streams.operator.resources.cursor import Cursor
from streams.operator.resources.effects import effects_of
from streams.operator.resources.job_view import JobDetails, job_json
from streams.operator.resources.json_values import Json
from streams.operator.resources.paging import Filters, Page, PageQuery, newest
from streams.operator.resources.progress import progress_of
from streams.operator.resources.steps import steps_of
from streams.operator.resources.table import Row, Table, find
from streams.operator.resources.waits import waits_of
from streams.runtime.processor import Record
from streams.serde.codec import JOB
from streams.serde.records import TERMINAL, Job, JobStatus
from streams.topology.model import Topology

FILTERS: Filters = {"tenant_id": (), "status": get_args(JobStatus), "type": ()}
LIVE = ", ".join(f"'{status}'" for status in get_args(JobStatus) if status not in TERMINAL)


@dataclass(frozen=True, slots=True)
class MadeJob:
    """A job in short; `created_at` in milliseconds."""

    job_id: str
    status: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The whole cluster in numbers; `oldest_ready_at` in milliseconds, None with no job ready."""

    jobs: dict[str, int]
    dead_letters: int
    oldest_ready_at: int | None


def job(connection: sqlite3.Connection, job_id: str) -> Job | None:
    """Return the newest state of a job."""
    return find(connection, JOB, "jobs", job_id=job_id)


def shown_job(connection: sqlite3.Connection, job_id: str, topology: Topology) -> Json | None:
    """Return a job as the API shows it alone, with why it waits."""
    found = job(connection, job_id)
    return None if found is None else whole_job(connection, found, topology)


def whole_job(connection: sqlite3.Connection, found: Job, topology: Topology) -> Json:
    """Return a job with what other tables hold about it, and why it waits."""
    details = details_of(connection, found)
    waits = waits_of(connection, found, details.held, topology)
    return {**job_json(found, details), "waits": waits}


def details_of(connection: sqlite3.Connection, found: Job) -> JobDetails:
    """Return what other tables hold about a job."""
    return JobDetails(
        effects_of(connection, found),
        steps_of(connection, found),
        progress_of(connection, found),
        duplicates.of_job(connection, found),
        held.of_job(connection, found),
    )


def jobs_page(connection: sqlite3.Connection, query: PageQuery) -> Page:
    """Return jobs by creation, newest first; what surrounds them counts for `PAGE_BYTES`."""
    rows, after = newest(connection, TABLE.name, ("created_at", "job_id"), query)
    items, size = list[Json](), 0
    for at, job_id, record in rows:
        found = JOB.decode(record)
        beside = details_of(connection, found)
        size += len(record) + beside.size
        if items and size > paging.PAGE_BYTES:
            break
        items.append(job_json(found, beside))
        last = Cursor(at, job_id)
    return Page(tuple(items), after if len(items) == len(rows) else last)


def sharing(connection: sqlite3.Connection, found: Job) -> MadeJob | None:
    """Return another job that has not ended and whose effects lie in the scope of this one."""
    row = connection.execute(
        "SELECT job_id, status, created_at FROM jobs WHERE tenant_id = ? AND scope = ?"  # noqa: S608  constants
        f" AND job_id <> ? AND status IN ({LIVE}) LIMIT 1",
        (found.tenant_id, found.scope, found.job_id),
    ).fetchone()
    return None if row is None else MadeJob(*row)


def counts(connection: sqlite3.Connection) -> Counts:
    """Count jobs by status and dead letters, and find the oldest job that waits for a worker."""
    by_status = connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
    (dead,) = connection.execute("SELECT count(*) FROM dead_letters").fetchone()
    (oldest,) = connection.execute(
        "SELECT min(ready_at) FROM jobs WHERE status = 'pending'"
    ).fetchone()
    return Counts(dict(by_status), dead, oldest)


def _row(record: Record) -> Row:
    job = JOB.read(record.value)
    return (job["job_id"], job["tenant_id"], job["type"], job["status"], job["pool"], job["scope"],
            job["replay_of"], record.partition, job["created_at"], job["ready_at"],
            record.value)  # fmt: skip


TABLE = Table(
    name="jobs",
    topic="jobs",
    key="job_id TEXT",
    columns="tenant_id TEXT NOT NULL, type TEXT NOT NULL, status TEXT NOT NULL, "
    "pool TEXT NOT NULL, scope TEXT NOT NULL, replay_of TEXT, part INTEGER NOT NULL, "
    "created_at INTEGER NOT NULL, ready_at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={
        "newest": "(created_at, job_id)",
        "of_tenant": "(tenant_id, created_at, job_id)",
        "of_tenant_by_status": "(tenant_id, status, created_at, job_id)",
        "by_status": "(status, created_at, job_id)",
        "by_type": "(type, created_at, job_id)",
        "ready": "(ready_at) WHERE status = 'pending'",
        "waiting": "(type, created_at, job_id) WHERE status IN ('pending', 'scheduled', 'waiting')",
        "of_scope": "(tenant_id, scope)",
        "by_replay": "(replay_of) WHERE replay_of IS NOT NULL",
    },
)
