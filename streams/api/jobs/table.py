"""Jobs as the dispatcher last wrote them.

A query about one tenant names it in SQL (G3), so that no row of another tenant is ever read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streams.api.deliveries import table as deliveries
from streams.api.duplicates import table as duplicates
from streams.api.effects.table import effects_of
from streams.api.jobs import held_table as held
from streams.api.jobs import places
from streams.api.jobs.progress_table import progress_of
from streams.api.jobs.running import IS_RUNNING, RunningJobs
from streams.api.jobs.superseded import events_of
from streams.api.jobs.view import JobDetails, job_json
from streams.api.jobs.waits import waits_of
from streams.api.limits import circuits
from streams.api.live import table as live
from streams.api.rows import paging
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json, parsed
from streams.api.rows.paging import Filters, Operator, Page, PagedList, PageQuery, newest
from streams.api.rows.restricted import RestrictedConnection
from streams.api.rows.table import Row, Table, find, status_in
from streams.api.steps.table import heartbeat_of, steps_of
from streams.api.tenants import table as tenants
from streams.ledger import settleable_at
from streams.limits import keys as limit_keys
from streams.runtime.processor import Record
from streams.serde import job_states
from streams.serde.codec import JOB
from streams.serde.effect_scopes import full_action, is_shared
from streams.serde.effect_states import UNSETTLED
from streams.serde.records import Job, LedgerEntry
from streams.topology.model import Topology

FILTERS: Filters = {
    "tenant_id": (),
    "status": job_states.NAMES,
    "type": (),
    "replay_id": (),
    "workflow_id": (),
}
_IN_WORKFLOW = {name: f"+{name} = ?" for name in ("tenant_id", "status", "type", "replay_id")}
"""SQL that leaves the index of a workflow's jobs as the only one to walk."""
_OF_TENANT = {"type": "+type = ?"}
"""SQL that leaves the indexes of a tenant's jobs, which have their types, as the only ones to walk:
most jobs of a type may be of other tenants."""
IS_LIVE = status_in(*job_states.LIVE)


@dataclass(frozen=True, slots=True)
class MadeJob:
    job_id: str
    status: str


def job(connection: sqlite3.Connection, job_id: str) -> Job | None:
    """Return the newest state of a job."""
    return find(connection, JOB, "jobs", job_id=job_id)


def shown_job(connection: sqlite3.Connection, job_id: str, topology: Topology) -> Json | None:
    """Return a job as the API shows it alone, with why it waits and who was told of its end."""
    found = job(connection, job_id)
    return None if found is None else whole_job(connection, found, topology)


def whole_job(connection: sqlite3.Connection, found: Job, topology: Topology) -> Json:
    """Return a job with its input, what other tables hold, why it waits, and its deliveries."""
    details, events = details_of(connection, found, topology), events_of(connection, found)
    return {
        **job_json(found, details),
        "event_ids": list(events),
        "event_count": max(found.event_count, len(events)),
        "input": shown_input(connection, found),
        "why": waits_of(RunningJobs(connection, topology), found, details, topology),
        "deliveries": deliveries.of_job(connection, found.tenant_id, found.job_id),
        "log": live.newest_lines(connection, found),
    }


def shown_input(connection: sqlite3.Connection, found: Job) -> object:
    """Return what a job was submitted with; None for an event's job, and for an erased tenant's.

    Kafka keeps an input until its retention ends, but after an erasure nobody is shown it, as
    nobody is shown a body.
    """
    erased = tenants.erasure(connection, found.tenant_id)
    return None if erased else parsed(found.input)


def details_of(connection: sqlite3.Connection, found: Job, topology: Topology) -> JobDetails:
    """Return what other tables hold about a job."""
    effects = effects_of(connection, found)
    return JobDetails(
        effects,
        steps_of(connection, found),
        progress_of(connection, found),
        duplicates.of_job(connection, found),
        held.of_job(connection, found),
        _settle_after(connection, found, effects, topology),
        {
            wait.id: places.in_gather(connection, found, wait.id)
            for wait in found.waits
            if wait.kind == "gather"
        },
        heartbeat_of(connection, found),
    )


def _settle_after(
    connection: sqlite3.Connection, found: Job, effects: Sequence[LedgerEntry], topology: Topology
) -> dict[str, int]:
    unsettled = [entry for entry in effects if entry.status in UNSETTLED]
    if not unsettled or (found.status not in job_states.FOR_A_PERSON and _lives(connection, found)):
        return {}
    times = ((entry, _settleable_at(connection, found, entry, topology)) for entry in unsettled)
    return {full_action(e.scope, e.action): at for e, at in times if at is not None}


def _settleable_at(
    connection: sqlite3.Connection, found: Job, entry: LedgerEntry, topology: Topology
) -> int | None:
    """Return when an effect of a job at rest can be settled; None while another job makes it."""
    made_by = job(connection, entry.job_id) if is_shared(entry.scope) else found
    runs = made_by is not None and made_by.status in job_states.LEASED
    if made_by is not None and runs and made_by.run_id == entry.run_id:
        return None
    return settleable_at(entry, made_by, topology.leases.term_seconds)


def _lives(connection: sqlite3.Connection, found: Job) -> bool:
    """Whether a job of this job's scope has not ended."""
    rows = connection.execute(
        f"SELECT 1 FROM jobs WHERE tenant_id = ? AND scope = ? AND {IS_LIVE} LIMIT 1",  # noqa: S608  constants
        (found.tenant_id, found.scope),
    )
    return rows.fetchone() is not None


def jobs_page(connection: sqlite3.Connection, query: PageQuery, topology: Topology) -> Page:
    """Return jobs by creation, newest first, with why they wait.

    What surrounds them counts for `PAGE_BYTES`.
    """
    only = _IN_WORKFLOW if query.filters.get("workflow_id") else _of_tenant(connection, query)
    rows, after = newest(connection, TABLE.name, ("created_at", "job_id"), query, only)
    items, size, running = list[Json](), 0, RunningJobs(connection, topology)
    for at, job_id, record in rows:
        found = JOB.decode(record)
        beside = details_of(connection, found, topology)
        size += len(record) + beside.size
        if items and size > paging.PAGE_BYTES:
            break
        why = waits_of(running, found, beside, topology)
        items.append({**job_json(found, beside), "why": why})
        last = Cursor(at, job_id)
    return Page(tuple(items), after if len(items) == len(rows) else last)


def _of_tenant(connection: sqlite3.Connection, query: PageQuery) -> Mapping[str, str]:
    asks_each = isinstance(connection, RestrictedConnection) and not connection.are_too_many
    return _OF_TENANT if asks_each or query.filters.get("tenant_id") else {}


def _page(connection: sqlite3.Connection, query: PageQuery, operator: Operator) -> Page:
    """Return jobs, newest first."""
    return jobs_page(connection, query, operator.topology)


def sharing(connection: sqlite3.Connection, found: Job) -> MadeJob | None:
    """Return another job that has not ended and whose effects lie in the scope of this one."""
    row = connection.execute(
        "SELECT job_id, status FROM jobs WHERE tenant_id = ? AND scope = ?"  # noqa: S608  constants
        f" AND job_id <> ? AND {IS_LIVE} LIMIT 1",
        (found.tenant_id, found.scope, found.job_id),
    ).fetchone()
    return None if row is None else MadeJob(*row)


_read = JOB.reading(
    *("job_id", "tenant_id", "type", "status", "pool", "scope", "replay_of", "replay_id", "event"),
    *("superseded_by", "created_at", "ready_at", "updated_at", "limit_keys"),
    *("next_retry_at", "scheduled_at"),
    *places.FIELDS,
)


def _row(record: Record) -> Row:
    job = _read(record.value)
    replayed = job["event"]["event_id"] if job["replay_id"] and job["event"] else None
    return (
        job["job_id"],
        job["tenant_id"],
        job["type"],
        job["status"],
        job["pool"],
        job["scope"],
        job["replay_of"],
        job["replay_id"],
        replayed,
        job["superseded_by"],
        record.partition,
        record.offset,
        *places.row(job),
        job["created_at"],
        job["ready_at"],
        job["updated_at"],
        _due_at(job),
        limit_keys.as_text(job["limit_keys"]),
        record.value,
    )


def _due_at(job: Mapping[str, Any]) -> int | None:
    """Return when a scheduled job goes on, if that is at a set time."""
    is_scheduled = job["status"] == job_states.SCHEDULED
    return job["next_retry_at"] or job["scheduled_at"] if is_scheduled else None


TABLE = Table(
    name="jobs",
    topic="jobs",
    key="job_id TEXT",
    columns="tenant_id TEXT NOT NULL, type TEXT NOT NULL, status TEXT NOT NULL, "
    "pool TEXT NOT NULL, scope TEXT NOT NULL, replay_of TEXT, replay_id TEXT, replayed_event TEXT, "
    "superseded_by TEXT, part INTEGER NOT NULL, off INTEGER NOT NULL, "
    f"{places.COLUMNS}, created_at INTEGER NOT NULL, "
    "ready_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER, "
    "limit_keys TEXT, record BLOB NOT NULL",
    row=_row,
    fixed=("tenant_id", "type", "scope", "created_at"),  # but of a job whose id lives again
    indexes={
        "newest": "(created_at, job_id)",
        "of_tenant": "(tenant_id, created_at, job_id, type)",
        "of_tenant_by_status": "(tenant_id, status, created_at, job_id, type)",
        "by_status": "(status, created_at, job_id)",
        "by_type": "(type, created_at, job_id)",
        "running": "(part, tenant_id, type, pool, limit_keys, status, job_id, updated_at) "
        f"WHERE {IS_RUNNING}",
        "ready": "(ready_at, tenant_id, type, pool, limit_keys, status, part) "
        f"WHERE {status_in(job_states.PENDING)}",
        "cut_off": f"(tenant_id, limit_keys, status) WHERE {circuits.WAITS}",
        "due": f"(due_at) WHERE {status_in(job_states.SCHEDULED)}",
        "waiting": f"(type, created_at, job_id) WHERE {status_in(*job_states.MOVABLE)}",
        "of_scope": "(tenant_id, scope)",
        "by_replay": "(replay_of) WHERE replay_of IS NOT NULL",
        "of_replayed_event": "(replayed_event) WHERE replayed_event IS NOT NULL",
        "by_taker": "(superseded_by) WHERE superseded_by IS NOT NULL",
        "of_replay": "(replay_id, created_at, job_id) WHERE replay_id IS NOT NULL",
        **places.INDEXES,
    },
)
LISTING = PagedList(TABLE.name, ("/v1/jobs",), _page, FILTERS)
