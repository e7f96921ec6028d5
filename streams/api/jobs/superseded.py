"""Which job took the place of which (`superseded_by`), followed from one job to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from streams.serde.codec import JOB
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job
from streams.serde.sizes import MOST_EVENT_IDS

_LONGEST = 100_000
_TAKER = """
    WITH RECURSIVE takers(job_id, number) AS (
        SELECT ?, 0
        UNION ALL
        SELECT j.superseded_by, number + 1 FROM takers t JOIN jobs j ON j.job_id = t.job_id
        WHERE j.tenant_id = ? AND j.superseded_by IS NOT NULL AND number < ?
    )
    SELECT job_id FROM takers ORDER BY number DESC LIMIT 1"""
_TAKEN = """
    WITH RECURSIVE taken(job_id) AS (
        SELECT job_id FROM jobs WHERE superseded_by = ? AND tenant_id = ?
        UNION
        SELECT j.job_id FROM jobs j JOIN taken t ON j.superseded_by = t.job_id
        WHERE j.tenant_id = ? LIMIT ?
    )
    SELECT j.record FROM taken JOIN jobs j ON j.job_id = taken.job_id
    ORDER BY j.created_at, j.job_id"""


def taker_of(connection: sqlite3.Connection, job_id: str, tenant_id: str) -> str:
    """Return the job that stands for a job in the end: itself if no other took its place."""
    row = connection.execute(_TAKER, (job_id, tenant_id, _LONGEST)).fetchone()
    return str(row[0])


def events_of(connection: sqlite3.Connection, job: Job) -> Sequence[str]:
    """Return the events that a job stands for; one that has not begun may get more of them.

    Its record names them once it has begun or ended.
    """
    if job.event_count or job.run_id is not None or job.status in TERMINAL:
        return job.all_event_ids
    own = (job.job_id, job.tenant_id, job.tenant_id, MOST_EVENT_IDS - 1)
    records = (JOB.decode(record) for (record,) in connection.execute(_TAKEN, own))
    return (*(each.event.event_id for each in records if each.event), *job.all_event_ids)
