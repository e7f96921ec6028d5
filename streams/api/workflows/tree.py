"""The jobs of a workflow as a tree, of which an answer shows one level of one job.

No answer grows with the number of jobs: a level is paged, and lists that a job has are cut at the
same limit, with their numbers beside them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from urllib.parse import unquote

from streams.api.jobs import places
from streams.api.jobs import table as jobs
from streams.api.jobs.open_waits import UNKNOWN, Gathers, told
from streams.api.jobs.places import Level, children
from streams.api.jobs.running import RunningJobs
from streams.api.jobs.view import job_json, parent_json
from streams.api.jobs.waits import waits_of
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PageQuery
from streams.api.rows.table import find
from streams.api.workflows.table import holds, other_lives, summary_json, workflows
from streams.http.moments import rfc3339
from streams.serde import job_states
from streams.serde.codec import APPROVAL, JOB
from streams.serde.records import Approval, Job, Workflow
from streams.serde.step_ids import CHILD
from streams.topology.model import Topology

_OF_NODE = (
    "attempts",
    "continuations",
    "cancel_requested",
    "cancel_reason",
    "result",
    "waits",
)
_KEY = re.compile(r"\[([^\[\]]*)\]$")


def workflow_json(
    connection: sqlite3.Connection, workflow: Workflow, query: PageQuery, topology: Topology
) -> Json:
    """Return a workflow with its root, a page of the root's children, and its other roots.

    `root` is null if no job of the workflow without a parent is kept any more.
    """
    first = PageQuery(query.limit)
    root = _root(connection, workflow)
    return {
        **summary_json(workflow),
        "root": None if root is None else node_json(connection, root, query, topology),
        "roots": _roots(connection, workflow, root, first),
        "approvals": _asked(connection, workflow, root, query.limit),
        "other_lives": other_lives(connection, workflow),
    }


def node_json(
    connection: sqlite3.Connection, job: Job, query: PageQuery, topology: Topology
) -> Json:
    """Return one job of a tree with a page of its children.

    `counts` says how many steps and effects it has, of which the newest ones are shown; what only
    asked for a child is no step here.
    """
    details = jobs.details_of(connection, job, topology)
    shown, most = job_json(job, details), query.limit
    steps = [step for step in shown["steps"] if step["kind"] != CHILD]
    return {
        **_job_json(job, details.gathers),
        **{name: shown[name] for name in _OF_NODE},
        "why": waits_of(RunningJobs(connection, topology), job, details, topology),
        "steps": steps[-most:],
        "effects": shown["effects"][-most:],
        "approvals": _approvals_of(connection, job, most),
        "counts": {"steps": len(steps), "effects": len(details.effects)},
        "children": _level_json(connection, children(job), query),
    }


def above(connection: sqlite3.Connection, job: Job, most: int) -> list[Json]:
    """Return the jobs above one, the root first; those that are not kept any more are missing."""
    found = list[Json]()
    while job.parent is not None and len(found) < most:
        parent = jobs.job(connection, job.parent.job_id)
        if parent is None or parent.tenant_id != job.tenant_id:
            break
        found.append({"job_id": parent.job_id, "type": parent.type, "status": parent.status})
        job = parent
    return found[::-1]


def roots_page(connection: sqlite3.Connection, query: PageQuery, _: Operator) -> Page:
    """Return the jobs of a workflow that no other job asked for, oldest first."""
    id_, tenant_id = (query.filters.get(name) for name in ("workflow_id", "tenant_id"))
    found = workflows(connection, str(id_), None if tenant_id is None else str(tenant_id))
    return _roots_page(connection, found[0], query) if found else Page(())


def _roots_page(connection: sqlite3.Connection, workflow: Workflow, query: PageQuery) -> Page:
    root = _root(connection, workflow)
    if root is not None and root.workflow_id is None:
        is_meant = query.cursor is None and query.filters.get("status") in (None, root.status)
        return Page((_alone(root),) if is_meant else (), None)
    level = places.roots(workflow.tenant_id, workflow.workflow_id)
    found, after = places.page(connection, level, query)
    return Page(tuple(_with_number(connection, found)), after)


def _root(connection: sqlite3.Connection, workflow: Workflow) -> Job | None:
    first = jobs.job(connection, workflow.root_job_id)
    if holds(workflow, first):
        return first
    level = places.roots(workflow.tenant_id, workflow.workflow_id)
    found, _ = places.page(connection, level, PageQuery(1))
    return found[0] if found else None


def _roots(
    connection: sqlite3.Connection, workflow: Workflow, root: Job | None, query: PageQuery
) -> Json:
    if root is None or root.workflow_id is not None:
        return _level_json(
            connection, places.roots(workflow.tenant_id, workflow.workflow_id), query
        )
    return {"total": 1, "by_status": {root.status: 1}, "jobs": [_alone(root)], "cursor": None}


def _alone(root: Job) -> Json:
    """Return a job that is a workflow of its own, as a level of it."""
    return {**_job_json(root), "children": {"total": 0}}


def _level_json(connection: sqlite3.Connection, level: Level, query: PageQuery) -> Json:
    by_status = places.by_status(connection, level)
    found, after = places.page(connection, level, query)
    return {
        "total": sum(by_status.values()),
        "by_status": by_status,
        "jobs": _with_number(connection, found),
        "cursor": None if after is None else str(after),
    }


def _with_number(connection: sqlite3.Connection, found: Iterable[Job]) -> list[Json]:
    """Return jobs of a level, each with the number of its own children."""
    return [
        {**_job_json(job), "children": {"total": places.number(connection, children(job))}}
        for job in found
    ]


def _job_json(job: Job, gathers: Gathers = UNKNOWN) -> Json:
    """Return a job as each level shows it; `key` is that of the call that asked for it."""
    parent = job.parent
    key = None if parent is None else _KEY.search(parent.call)
    has_ended = job.status in job_states.TERMINAL
    return {
        "job_id": job.job_id,
        "type": job.type,
        "status": job.status,
        "parent": None if parent is None else parent_json(parent),
        "call": None if parent is None else parent.call,
        "key": None if key is None else unquote(key[1]),
        "depth": job.depth,
        "replay_of": job.replay_of,
        "replayed_as": job.replayed_as,
        "waits_for": _waits_for(job, gathers),
        "last_error": None if job.status == job_states.SUCCEEDED else job.last_error,
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
        "ended_at": rfc3339(job.updated_at) if has_ended else None,
    }


def _waits_for(job: Job, gathers: Gathers) -> str | None:
    state = job_states.BY_NAME.get(job.status)
    match state and state.waits_for:
        case "outside":
            return told(job, gathers)
        case "time":
            return f"the time {rfc3339(job.due_at)}"
        case "person":
            return "a person, who says what is not known of it"
        case _:
            return None


def _asked(connection: sqlite3.Connection, workflow: Workflow, root: Job | None, most: int) -> Json:
    """Return what jobs of a workflow ask of people, of the oldest jobs first."""
    if root is not None and root.workflow_id is None:
        found = _pending(connection, root)
        return {"jobs": int(bool(found)), "pending": found[:most]}
    where = "FROM jobs WHERE tenant_id = ? AND workflow_id = ? AND asks = 1"
    whose = workflow.tenant_id, workflow.workflow_id
    (number,) = connection.execute(f"SELECT count(*) {where}", whose).fetchone()
    rows = connection.execute(
        f"SELECT record {where} ORDER BY created_at, job_id LIMIT ?",
        (*whose, most),
    ).fetchall()
    pending = [each for (record,) in rows for each in _pending(connection, JOB.decode(record))]
    return {"jobs": number, "pending": pending[:most]}


def _pending(connection: sqlite3.Connection, job: Job) -> list[Json]:
    """Return the approvals that a job waits for."""
    if job.status in job_states.TERMINAL:
        return []
    ids = [wait.approval_id for wait in job.waits if wait.kind == "approval" and wait.approval_id]
    found = (find(connection, APPROVAL, "approvals", id=id_) for id_ in ids)
    return [_approval_json(each, job.type) for each in found if each is not None]


def _approvals_of(connection: sqlite3.Connection, job: Job, most: int) -> list[Json]:
    """Return the newest approvals of a job, decided or not."""
    rows = connection.execute(
        "SELECT record FROM approvals WHERE tenant_id = ? AND job_id = ?"
        " ORDER BY at DESC, id DESC LIMIT ?",
        (job.tenant_id, job.job_id, most),
    ).fetchall()
    return [_approval_json(APPROVAL.decode(record), job.type) for (record,) in rows]


def _approval_json(approval: Approval, type_: str) -> Json:
    """Return an approval without what is sealed in it."""
    return {
        "approval_id": approval.approval_id,
        "job_id": approval.job_id,
        "type": type_,
        "key": approval.key,
        "status": approval.status,
        "by": approval.by,
        "asked_at": rfc3339(approval.asked_at),
        "expires_at": rfc3339(approval.expires_at),
    }
