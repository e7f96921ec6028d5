"""What the API asks of the read model; each function runs on one connection, in one snapshot.

A query about one tenant names it in SQL (G3): no row of another is ever read.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from streams.operator.cursor import Cursor
from streams.operator.views import Around, Json, Replayed, dead_letter_json, job_json
from streams.serde import ids
from streams.serde.codec import (
    DEAD_LETTER,
    DUPLICATE,
    HELD,
    JOB,
    LEDGER_ENTRY,
    QUARANTINED,
    REJECTION,
)
from streams.serde.records import (
    DeadLetter,
    Duplicate,
    Held,
    Job,
    LedgerEntry,
    Quarantined,
    Rejection,
)

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends early where its records are so large; one is shown at least."""
_MOST_REPLAYS = 100
"""So many replays of one job are named."""


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
    rows, after = _newest(connection, "jobs", ("created_at", "job_id"), equal, limit, cursor)
    items, size = list[Json](), 0
    for at, job_id, record in rows:
        found = JOB.decode(record)
        beside = around(connection, found)
        size += len(record) + _size(beside)
        if items and size > PAGE_BYTES:
            break
        items.append(job_json(found, beside))
        last = Cursor(at, job_id)
    return Page(tuple(items), after if len(items) == len(rows) else last)


def _size(beside: Around) -> int:
    """About how many bytes it takes to show what stands on other topics about a job."""
    effects = sum(len(entry.result or "") + len(entry.error or "") for entry in beside.effects)
    return effects + sum(len(value) for _, value in beside.steps) + len(beside.progress or "")


def dead_letters_page(
    connection: sqlite3.Connection, equal: dict[str, str | None], limit: int, cursor: Cursor | None
) -> tuple[tuple[Json, ...], Cursor | None]:
    """Dead letters newest first, and the cursor behind the last; `equal` holds column filters."""
    rows, after = _newest(connection, "dead_letters", ("at", "id"), equal, limit, cursor)
    letters = (DEAD_LETTER.decode(record) for _, _, record in rows)
    return tuple(shown_letter(connection, each) for each in letters), after


def shown_letter(connection: sqlite3.Connection, letter: DeadLetter) -> Json:
    """A dead letter as lists show it, with the jobs that were made of its own."""
    row = connection.execute(
        "SELECT status FROM jobs WHERE job_id = ? AND tenant_id = ?",
        (letter.replayed_as, letter.tenant_id),
    ).fetchone()
    made = replays(connection, letter.tenant_id, letter.id)
    return dead_letter_json(letter, made, row[0] if row else None)


def replays(connection: sqlite3.Connection, tenant_id: str, job_id: str) -> tuple[Replayed, ...]:
    """Jobs made of this one, newest first."""
    rows = connection.execute(
        "SELECT job_id, status, created_at FROM jobs WHERE replay_of = ? AND tenant_id = ?"
        " ORDER BY created_at DESC, job_id DESC LIMIT ?",
        (job_id, tenant_id, _MOST_REPLAYS),
    )
    return tuple(Replayed(*row) for row in rows)


def dead_letter(connection: sqlite3.Connection, id_: str) -> DeadLetter | None:
    """One dead letter, by job id or by stage:topic:partition:offset."""
    row = connection.execute("SELECT record FROM dead_letters WHERE id = ?", (id_,)).fetchone()
    return None if row is None else DEAD_LETTER.decode(row[0])


def quarantined_page(
    connection: sqlite3.Connection,
    tenant_id: str | None,
    status: str | None,
    limit: int,
    cursor: Cursor | None,
) -> tuple[tuple[Quarantined, ...], Cursor | None]:
    """Quarantined bodies newest first, and the cursor behind the last."""
    equal = {"tenant_id": tenant_id, "status": status}
    rows, after = _newest(connection, "quarantine", ("at", "id"), equal, limit, cursor)
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
    rows, after = _newest(connection, "rejections", ("at", "id"), equal, limit, cursor)
    return tuple(REJECTION.decode(each) for _, _, each in rows), after


def duplicates_page(
    connection: sqlite3.Connection, tenant_id: str | None, limit: int, cursor: Cursor | None
) -> tuple[tuple[tuple[str, Duplicate], ...], Cursor | None]:
    """Events with duplicates by the last of these, newest first: fingerprint and counts."""
    order, equal = ("at", "fingerprint"), {"tenant_id": tenant_id}
    rows, after = _newest(connection, "duplicates", order, equal, limit, cursor)
    return tuple((key, DUPLICATE.decode(each)) for _, key, each in rows), after


def held_page(
    connection: sqlite3.Connection, tenant_id: str | None, limit: int, cursor: Cursor | None
) -> tuple[tuple[Held, ...], Cursor | None]:
    """What keeps jobs from running, the newest reason first, and the cursor behind the last."""
    equal = {"tenant_id": tenant_id}
    rows, after = _newest(connection, "held", ("since", "id"), equal, limit, cursor)
    return tuple(HELD.decode(each) for _, _, each in rows), after


def counts(connection: sqlite3.Connection) -> Counts:
    """Jobs by status, dead letters, the oldest job that waits for a worker."""
    by_status = connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
    (dead,) = connection.execute("SELECT count(*) FROM dead_letters").fetchone()
    (oldest,) = connection.execute(
        "SELECT min(ready_at) FROM jobs WHERE status = 'pending'"
    ).fetchone()
    return Counts(dict(by_status), dead, oldest)


def _newest(
    connection: sqlite3.Connection,
    table: str,
    order: tuple[str, str],
    equal: dict[str, str | None],
    limit: int,
    cursor: Cursor | None,
) -> tuple[list[tuple[int, str, bytes]], Cursor | None]:
    """At most `limit` rows and so many bytes as one answer may have, and the cursor behind them."""
    at, id_ = order
    given = {name: value for name, value in equal.items() if value is not None}
    conditions = [f"{name} = ?" for name in given]
    values: list[Any] = [*given.values()]
    if cursor is not None:
        conditions.append(f"({at}, {id_}) < (?, ?)")
        values += [cursor.at, cursor.id]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    found = connection.execute(
        f"SELECT {at}, {id_}, record FROM {table} {where}"  # noqa: S608  names are constants
        f" ORDER BY {at} DESC, {id_} DESC LIMIT ?",
        (*values, limit + 1),
    )
    rows, size = list[tuple[int, str, bytes]](), 0
    for row in found:
        size += len(row[2])
        if len(rows) == limit or (rows and size > PAGE_BYTES):
            return rows, Cursor(*rows[-1][:2])
        rows.append(row)
    return rows, None
