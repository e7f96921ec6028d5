"""Workflows as the dispatcher last counted them; the jobs themselves are in their own table."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from streams.http.moments import rfc3339
from streams.operator.resources import jobs
from streams.operator.resources.json_values import Json
from streams.operator.resources.paging import Entry, Listing
from streams.operator.resources.table import Row, Table
from streams.runtime.processor import Record
from streams.serde import job_states
from streams.serde.codec import WORKFLOW
from streams.serde.records import Job, Workflow

STATUSES = (
    job_states.RUNNING,
    *(name for name in job_states.NAMES if name in job_states.TERMINAL),
)


def workflows(
    connection: sqlite3.Connection, id_: str, tenant_id: str | None = None
) -> list[Workflow]:
    """Return the workflow of this id, or the one that the job of this id is in.

    Several tenants may have given the same id. A job without children is a workflow of its own.
    """
    named = "SELECT record FROM workflows WHERE id = ? AND (? IS NULL OR tenant_id = ?)"
    rows = connection.execute(named, (id_, tenant_id, tenant_id))
    found = [WORKFLOW.decode(record) for (record,) in rows]
    job = jobs.job(connection, id_)
    if job is None or tenant_id not in (None, job.tenant_id):
        return found
    its = _of_job(connection, job)
    if its is None or (its.tenant_id, its.workflow_id) in {
        (each.tenant_id, each.workflow_id) for each in found
    }:
        return found
    return [*found, its]


def holds(workflow: Workflow, job: Job | None) -> bool:
    """Return whether a job is one of a workflow."""
    if job is None or job.tenant_id != workflow.tenant_id:
        return False
    return (job.workflow_id or job.job_id) == workflow.workflow_id


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


def _of_job(connection: sqlite3.Connection, job: Job) -> Workflow | None:
    """Return the workflow that a job is in; None if its record is not shown yet."""
    if job.workflow_id not in (None, job.job_id):
        row = connection.execute(
            "SELECT record FROM workflows WHERE tenant_id = ? AND id = ?",
            (job.tenant_id, job.workflow_id),
        ).fetchone()
        return None if row is None else WORKFLOW.decode(row[0])
    alone = Workflow(
        job.job_id,
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
        record.value,
    )


def _item(_: sqlite3.Connection, entry: Entry) -> Json:
    return summary_json(WORKFLOW.decode(entry.record))


TABLE = Table(
    name="workflows",
    topic="workflows",
    key="tenant_id TEXT, id TEXT",
    columns="status TEXT NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL",
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
