"""What the API asks of the read model; each function runs on one connection, in one snapshot.

A query about one tenant names it in SQL (G3): no row of another is ever read.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.operator.http.views import Around, Json, job_json
from streams.operator.read_model import paging
from streams.operator.read_model.cursor import Cursor
from streams.operator.read_model.paging import newest
from streams.serde import ids
from streams.serde.codec import (
    DUPLICATE,
    HELD,
    JOB,
    LEDGER_ENTRY,
    QUARANTINED,
    REJECTION,
)
from streams.serde.records import (
    Duplicate,
    Held,
    Job,
    LedgerEntry,
    Quarantined,
    Rejection,
)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; None does not restrict."""

    tenant_id: str | None = None
    status: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Items in the list's order; `next` continues behind the last, None at the end."""

    items: tuple[Json, ...]
    next: Cursor | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The whole cluster in numbers; `oldest_ready_at` in milliseconds, None with no job ready."""

    jobs: dict[str, int]
    dead_letters: int
    oldest_ready_at: int | None


def job(connection: sqlite3.Connection, job_id: str) -> Job | None:
    """The newest state of a job."""
    row = connection.execute("SELECT record FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else JOB.decode(row[0])


def shown_job(connection: sqlite3.Connection, job_id: str) -> Json | None:
    """A job as the API shows it."""
    found = job(connection, job_id)
    return None if found is None else job_json(found, around(connection, found))


def around(connection: sqlite3.Connection, found: Job) -> Around:
    """Effects of the job's scope, steps of its incarnation, newest progress, event's duplicates,
    and what keeps it from running."""
    effects = connection.execute(
        "SELECT record FROM effects WHERE tenant_id = ? AND scope = ?"
        " ORDER BY first_claimed_at, action",
        (found.tenant_id, found.scope),
    )
    steps = connection.execute(
        "SELECT name, value FROM steps WHERE job_id = ? AND incarnation = ? ORDER BY position",
        (found.job_id, found.incarnation),
    )
    progress = connection.execute(
        "SELECT value FROM progress WHERE job_id = ? AND tenant_id = ?",
        (found.job_id, found.tenant_id),
    ).fetchone()
    return Around(
        tuple(LEDGER_ENTRY.decode(record) for (record,) in effects),
        tuple(steps.fetchall()),
        progress[0] if progress else None,
        duplicates(connection, found),
        held(connection, found),
    )


def effect(connection: sqlite3.Connection, found: Job, action: str) -> LedgerEntry | None:
    """One effect of the job's scope."""
    row = connection.execute(
        "SELECT record FROM effects WHERE tenant_id = ? AND scope = ? AND action = ?",
        (found.tenant_id, found.scope, action),
    ).fetchone()
    return None if row is None else LEDGER_ENTRY.decode(row[0])


def held(connection: sqlite3.Connection, found: Job) -> Held | None:
    """Why no lease can be made for a pending job; its tenant's own reason comes first."""
    if found.status != "pending":
        return None
    row = connection.execute(
        "SELECT h.record FROM jobs j JOIN held h ON h.part = j.part AND h.pool = j.pool"
        " AND h.type = j.type AND h.tenant_id IN ('', j.tenant_id)"
        " WHERE j.job_id = ? ORDER BY h.tenant_id DESC LIMIT 1",
        (found.job_id,),
    ).fetchone()
    return None if row is None else HELD.decode(row[0])


def duplicates(connection: sqlite3.Connection, found: Job) -> Duplicate | None:
    """Of a job's event, within the window that the job began; None if it has none."""
    if found.event is None:
        return None
    key = ids.fingerprint(found.tenant_id, found.event.source, found.event.dedup_key)
    # Those of an earlier window belong to an earlier incarnation; a replay is of any time.
    since = found.event_time if found.replay_of is None else 0
    row = connection.execute(
        "SELECT record FROM duplicates WHERE fingerprint = ? AND tenant_id = ? AND at >= ?",
        (key.hex(), found.tenant_id, since),
    ).fetchone()
    return None if row is None else DUPLICATE.decode(row[0])


def jobs_page(
    connection: sqlite3.Connection, wanted: JobFilter, limit: int, cursor: Cursor | None
) -> Page:
    """Jobs by creation, newest first."""
    equal = {"tenant_id": wanted.tenant_id, "status": wanted.status, "type": wanted.type}
    rows, after = newest(connection, "jobs", ("created_at", "job_id"), equal, limit, cursor)
    items, size = list[Json](), 0
    for at, job_id, record in rows:
        found = JOB.decode(record)
        beside = around(connection, found)
        size += len(record) + _size(beside)
        if items and size > paging.PAGE_BYTES:
            break
        items.append(job_json(found, beside))
        last = Cursor(at, job_id)
    return Page(tuple(items), after if len(items) == len(rows) else last)


def _size(beside: Around) -> int:
    """About how many bytes it takes to show what stands on other topics about a job."""
    effects = sum(len(entry.result or "") + len(entry.error or "") for entry in beside.effects)
    return effects + sum(len(value) for _, value in beside.steps) + len(beside.progress or "")


def quarantined_page(
    connection: sqlite3.Connection,
    tenant_id: str | None,
    status: str | None,
    limit: int,
    cursor: Cursor | None,
) -> tuple[tuple[Quarantined, ...], Cursor | None]:
    """Quarantined bodies newest first, and the cursor behind the last."""
    equal = {"tenant_id": tenant_id, "status": status}
    rows, after = newest(connection, "quarantine", ("at", "id"), equal, limit, cursor)
    return tuple(QUARANTINED.decode(each) for _, _, each in rows), after


def quarantined(connection: sqlite3.Connection, id_: str) -> Quarantined | None:
    """One quarantined body, by its event's id."""
    row = connection.execute("SELECT record FROM quarantine WHERE id = ?", (id_,)).fetchone()
    return None if row is None else QUARANTINED.decode(row[0])


def rejections_page(
    connection: sqlite3.Connection, tenant_id: str | None, limit: int, cursor: Cursor | None
) -> tuple[tuple[Rejection, ...], Cursor | None]:
    """Counted refusals newest first, and the cursor behind the last."""
    equal = {"tenant_id": tenant_id}
    rows, after = newest(connection, "rejections", ("at", "id"), equal, limit, cursor)
    return tuple(REJECTION.decode(each) for _, _, each in rows), after


def duplicates_page(
    connection: sqlite3.Connection, tenant_id: str | None, limit: int, cursor: Cursor | None
) -> tuple[tuple[tuple[str, Duplicate], ...], Cursor | None]:
    """Events with duplicates by the last of these, newest first: fingerprint and counts."""
    order, equal = ("at", "fingerprint"), {"tenant_id": tenant_id}
    rows, after = newest(connection, "duplicates", order, equal, limit, cursor)
    return tuple((key, DUPLICATE.decode(each)) for _, key, each in rows), after


def held_page(
    connection: sqlite3.Connection, tenant_id: str | None, limit: int, cursor: Cursor | None
) -> tuple[tuple[Held, ...], Cursor | None]:
    """What keeps jobs from running, the newest reason first, and the cursor behind the last."""
    equal = {"tenant_id": tenant_id}
    rows, after = newest(connection, "held", ("since", "id"), equal, limit, cursor)
    return tuple(HELD.decode(each) for _, _, each in rows), after


def counts(connection: sqlite3.Connection) -> Counts:
    """Jobs by status, dead letters, the oldest job that waits for a worker."""
    by_status = connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
    (dead,) = connection.execute("SELECT count(*) FROM dead_letters").fetchone()
    (oldest,) = connection.execute(
        "SELECT min(ready_at) FROM jobs WHERE status = 'pending'"
    ).fetchone()
    return Counts(dict(by_status), dead, oldest)
