"""Where jobs stand: below the job that asked for them, or at the top of a workflow.

A job of neither has no place, so it costs nothing in the indexes here. Each of the queries reads
one of them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from streams.api.rows.cursor import Cursor
from streams.api.rows.paging import PageQuery
from streams.api.rows.table import Row
from streams.serde import job_states
from streams.serde.codec import JOB
from streams.serde.records import Job

COLUMNS = (
    "workflow_id TEXT, above TEXT, life INTEGER NOT NULL, place TEXT NOT NULL, gather TEXT, "
    "asks INTEGER NOT NULL"
)
INDEXES = {
    "of_workflow": "(workflow_id, created_at, job_id, tenant_id, status) "
    "WHERE workflow_id IS NOT NULL",
    "changed_in_workflow": "(workflow_id, off) WHERE workflow_id IS NOT NULL",
    "below": "(tenant_id, above, created_at, place, workflow_id) WHERE above IS NOT NULL",
    "below_by_status": "(tenant_id, above, status, created_at, place, workflow_id) "
    "WHERE above IS NOT NULL",
    "of_gather": "(tenant_id, above, gather, status, life) WHERE gather IS NOT NULL",
    "asking": "(tenant_id, workflow_id, created_at, job_id) WHERE asks = 1",
}
FIELDS = "job_id", "status", "workflow_id", "parent", "waits", "depth"
"""The fields of a job that `row` reads."""

_ABOVE = "tenant_id = :tenant_id AND above = :above"
_BELOW = f"{_ABOVE} AND workflow_id = :workflow_id"
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True, slots=True)
class Level:
    """Jobs that stand side by side: those that one job asked for, or the roots of a workflow.

    A job whose id lives again is in another workflow, unless its submission named that.
    """

    tenant_id: str
    above: str
    workflow_id: str | None

    @property
    def names(self) -> dict[str, Any]:
        """The values of the columns, as the queries name them."""
        return asdict(self)


def children(job: Job) -> Level:
    """Return the level of the jobs that one asked for."""
    return Level(job.tenant_id, job.job_id, job.workflow_id)


def roots(tenant_id: str, workflow_id: str) -> Level:
    """Return the level of the jobs of a workflow that no other job asked for."""
    return Level(tenant_id, _top(workflow_id), workflow_id)


def row(job: Mapping[str, Any]) -> Row:
    """Return the values of `COLUMNS`."""
    workflow_id, parent = job["workflow_id"], job["parent"]
    asks = int(
        job["status"] not in job_states.TERMINAL
        and any(w["kind"] == "approval" for w in job["waits"])
    )
    if parent is not None:
        place = f"{_sortable(parent['call'])} {job['job_id']}"
        life, gather = parent["incarnation"], parent["gather"] or None
        return workflow_id, parent["job_id"], life, place, gather, asks
    is_root = workflow_id is not None and job["depth"] == 0
    return workflow_id, _top(workflow_id) if is_root else None, 0, job["job_id"], None, asks


def by_status(connection: sqlite3.Connection, level: Level) -> dict[str, int]:
    """Return how many jobs of a level are in each state."""
    return _counted(connection, f"{_BELOW} GROUP BY status", level.names)


def in_gather(connection: sqlite3.Connection, job: Job, gather: str) -> dict[str, int]:
    """Return how many jobs of a gather are in each state that the job's present history has."""
    of = f"{_ABOVE} AND gather = :gather AND life = :life"
    names = {**children(job).names, "gather": gather, "life": job.incarnation}
    return _counted(connection, f"{of} GROUP BY status", names)


def number(connection: sqlite3.Connection, level: Level) -> int:
    """Return how many jobs a level has."""
    sql = f"SELECT count(*) FROM jobs WHERE {_BELOW}"  # noqa: S608  constants
    found: tuple[int] = connection.execute(sql, level.names).fetchone()
    return found[0]


def page(
    connection: sqlite3.Connection, level: Level, query: PageQuery
) -> tuple[list[Job], Cursor | None]:
    """Return some jobs of a level, in the order in which they were asked for."""
    where, names = _BELOW, level.names
    if (status := query.filters.get("status")) is not None:
        where, names = f"{where} AND status = :status", {**names, "status": status}
    if query.cursor is not None:
        where = f"{where} AND (created_at, place) > (:at, :place)"
        names = {**names, "at": query.cursor.at, "place": query.cursor.id}
    rows = connection.execute(
        f"SELECT created_at, place, record FROM jobs WHERE {where}"  # noqa: S608  constants
        " ORDER BY created_at, place LIMIT :most",
        {**names, "most": query.limit + 1},
    ).fetchall()
    shown = rows[: query.limit]
    after = Cursor(*shown[-1][:2]) if len(rows) > len(shown) else None
    return [JOB.decode(record) for _, _, record in shown], after


def _counted(
    connection: sqlite3.Connection, where: str, names: Mapping[str, Any]
) -> dict[str, int]:
    sql = f"SELECT status, count(*) FROM jobs WHERE {where}"  # noqa: S608  constants
    return job_states.in_order(dict(connection.execute(sql, names).fetchall()))


def _top(workflow_id: str) -> str:
    """Return what stands in place of a job's id; none begins so."""
    return f"/{workflow_id}"


def _sortable(call: str) -> str:
    """Return the id of a call so that `all/10` comes after `all/9`."""
    return _NUMBER.sub(lambda digits: digits[0].rjust(8, "0"), call)
