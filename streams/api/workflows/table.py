"""Workflows as the dispatcher last counted them; the jobs themselves are in their own table."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace

from streams.api.jobs import table as jobs
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde import job_states
from streams.serde.codec import WORKFLOW
from streams.serde.records import Job, Workflow

STATUSES = (
    job_states.RUNNING,
    *(name for name in job_states.NAMES if name in job_states.TERMINAL),
)
_LIFE = re.compile(r"(.+)\.([1-9][0-9]*)")
"""A job's id, and in which of its incarnations the life began."""


def workflows(
    connection: sqlite3.Connection, id_: str, tenant_id: str | None = None
) -> list[Workflow]:
    """Return the workflow of this id, or the one that the job of this id is in.

    Several tenants may have given the same id. A job without children is a workflow of its own. If
    a job's id has lived several times, it names the newest life, and `ID.1` the first.
    """
    found, job = _named(connection, id_, tenant_id), jobs.job(connection, id_)
    if job is None:
        return found or _life(connection, id_, tenant_id)
    its = None if tenant_id not in (None, job.tenant_id) else _of_job(connection, job)
    if its is None:
        return found
    return [*(each for each in found if each.tenant_id != job.tenant_id), its]


def holds(workflow: Workflow, job: Job | None) -> bool:
    """Return whether a job is one of a workflow."""
    if job is None or job.tenant_id != workflow.tenant_id:
        return False
    return (job.workflow_id or job.own_workflow) == workflow.workflow_id


def other_lives(connection: sqlite3.Connection, workflow: Workflow) -> list[str]:
    """Return the ids by which the other lives of a workflow's root are shown, oldest first."""
    root, tenant_id = workflow.root_job_id, workflow.tenant_id
    rows = connection.execute(
        "SELECT id FROM workflows WHERE tenant_id = ? AND (id = ? OR id > ? AND id < ?)",
        (tenant_id, root, f"{root}.", f"{root}/"),  # "/" comes next after "."
    )
    ids = {id_ for (id_,) in rows}
    job = jobs.job(connection, root)
    if job is not None and job.tenant_id == tenant_id:
        ids.add(job.workflow_id or job.own_workflow)
    lives = (_LIFE.fullmatch(f"{id_}.1" if id_ == root else id_) for id_ in ids)
    numbers = {int(life[2]) for life in lives if life is not None and life[1] == root}
    own = _LIFE.fullmatch(workflow.workflow_id)
    numbers.discard(1 if own is None else int(own[2]))
    return [f"{root}.{number}" for number in sorted(numbers)]


def summary_json(workflow: Workflow) -> Json:
    """Return a workflow without its jobs; `jobs` says how many are in each state.

    `error` is of the job that failed or died last. A workflow is `running`
    while any of its jobs has not ended; then its `outcome` is how its root ended.
    """
    failed = workflow.failed_job_id
    has_ended = workflow.status != job_states.RUNNING
    return {
        "workflow_id": workflow.workflow_id,
        "tenant_id": workflow.tenant_id,
        "status": workflow.status,
        "root": {"job_id": workflow.root_job_id, "type": workflow.root_type},
        "jobs": job_states.in_order(workflow.jobs),
        "outcome": workflow.outcome,
        "error": None if failed is None else {"job_id": failed, "error": workflow.error},
        "created_at": rfc3339(workflow.created_at),
        "updated_at": rfc3339(workflow.updated_at),
        "ended_at": rfc3339(workflow.updated_at) if has_ended else None,
    }


def _named(connection: sqlite3.Connection, id_: str, tenant_id: str | None) -> list[Workflow]:
    named = "SELECT record FROM workflows WHERE id = ? AND (? IS NULL OR tenant_id = ?)"
    rows = connection.execute(named, (id_, tenant_id, tenant_id))
    return [WORKFLOW.decode(record) for (record,) in rows]


def _life(connection: sqlite3.Connection, id_: str, tenant_id: str | None) -> list[Workflow]:
    """Return the workflow of a life of a job, if the id names one."""
    life = _LIFE.fullmatch(id_)
    if life is None:
        return []
    if life[2] == "1":
        return _named(connection, life[1], tenant_id)
    job = jobs.job(connection, life[1])
    if job is None or tenant_id not in (None, job.tenant_id) or job.own_workflow != id_:
        return []
    its = _of_job(connection, job)
    return [] if its is None else [its]


def _of_job(connection: sqlite3.Connection, job: Job) -> Workflow | None:
    """Return the workflow that a job is in; None if its record is not shown yet."""
    id_ = job.workflow_id or job.own_workflow
    found = _named(connection, id_, job.tenant_id)
    if found or id_ != job.own_workflow:
        return found[0] if found else None
    alone = Workflow(
        id_,
        job.tenant_id,
        job.job_id,
        job.type,
        job_states.RUNNING,
        {job.status: 1},
        kept=1,
        created_at=job.created_at,
        updated_at=job.updated_at,
    )
    if job.status not in job_states.TERMINAL:
        return alone
    alone = replace(alone, status=job.status, outcome=job.status)
    if job.status not in job_states.IN_DEAD_LETTERS:
        return alone
    return replace(alone, error=job.last_error, failed_job_id=job.job_id)


def _row(record: Record) -> Row:
    found = WORKFLOW.decode(record.value)
    return (
        found.tenant_id,
        found.workflow_id,
        found.status,
        found.created_at,
        record.partition,
        record.offset,
        record.value,
    )


def _item(_: sqlite3.Connection, entry: Entry) -> Json:
    return summary_json(WORKFLOW.decode(entry.record))


TABLE = Table(
    name="workflows",
    topic="workflows",
    key="tenant_id TEXT, id TEXT",
    columns="status TEXT NOT NULL, at INTEGER NOT NULL, part INTEGER NOT NULL, "
    "off INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={
        "newest": "(at, id)",
        "by_id": "(id)",
        "by_status": "(status, at, id)",
        "of_tenant": "(tenant_id, at, id)",
        "of_tenant_by_status": "(tenant_id, status, at, id)",
    },
)
LISTING = Listing(
    TABLE.name,
    ("/v1/workflows", "/v1/tenants/{tenant_id}/workflows"),
    _item,
    {"tenant_id": (), "status": STATUSES},
)
