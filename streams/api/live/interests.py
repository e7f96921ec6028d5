"""Which changes of rows concern a reader: by the row's own key, without a query for each change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from streams.api.live.statuses import JobRow
from streams.api.rows.table import Row, RowKey
from streams.serde.effect_scopes import noted
from streams.serde.job_states import PENDING

Interest = Row
"""The beginning of a kind of row's keys, behind the name of the kind."""
Interests = Mapping[Interest, frozenset[str]]
"""The jobs that each interest is about; "" for the workflow itself."""

_BY_JOB = frozenset({"jobs", "live", "progress", "steps"})
"""Tables whose key begins with the job's id."""


def touched(changed: RowKey) -> tuple[Interest, ...]:
    """Return the interests that a changed row meets."""
    table, key = changed
    if table in _BY_JOB:
        return (("job", key[0]),)
    match table:
        case "effects":
            return ("scope", *key[:2]), ("effect", *key)
        case "held":
            return (("held", *key[:3]),)
        case "workflows":
            return (("workflow", *key),)
        case _:
            return ()


def of_job(connection: sqlite3.Connection, job_id: str, row: JobRow | None) -> tuple[Interest, ...]:
    """Return what concerns those who watch a job."""
    own: Interest = ("job", job_id)
    if row is None:
        return (own,)
    job = row.job
    shared = connection.execute(
        "SELECT action FROM effects WHERE tenant_id = ? AND scope = ?"
        " AND action >= '@' AND action < 'A'",
        (job.tenant_id, job.scope),
    )
    found = [("effect", job.tenant_id, *noted(action)) for (action,) in shared]
    held = [("held", row.partition, job.pool, job.type)] if job.status == PENDING else []
    return own, ("scope", job.tenant_id, job.scope), *found, *held


def together(of_jobs: Mapping[str, Iterable[Interest]]) -> Interests:
    """Return the interests of several jobs as one."""
    found: dict[Interest, set[str]] = {}
    for job_id, interests in of_jobs.items():
        for interest in interests:
            found.setdefault(interest, set()).add(job_id)
    return {interest: frozenset(job_ids) for interest, job_ids in found.items()}
