"""What runs in the buckets of limits and what waits for them, counted when somebody asks.

If the dispatcher published these counts, each lease would cost more. One answer counts a bounded
number of jobs: those that run, and those that have waited longest.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass

from streams.api.jobs.running import IS_RUNNING
from streams.api.rows.table import status_in
from streams.limits.buckets import Bucket, Buckets, Candidate
from streams.limits.keys import from_text
from streams.serde.job_states import PENDING

MOST_JOBS = 100_000
"""So many jobs that run are counted, and so many that wait."""
MOST_GROUPS = 10_000
"""Jobs that the same buckets count are a group; so many of these are looked at."""

_BY = "tenant_id, type, pool, limit_keys"
_OF = "(:tenant_id IS NULL OR tenant_id = :tenant_id)"
RUNNING = (
    f"SELECT {_BY}, count(*) FROM (SELECT {_BY} FROM jobs INDEXED BY jobs_running "  # noqa: S608  constants
    f"WHERE {IS_RUNNING} AND {_OF} LIMIT :jobs) "
    f"GROUP BY {_BY} ORDER BY count(*) DESC LIMIT :groups"
)
WAITING = (
    f"SELECT {_BY}, count(*), min(ready_at) FROM (SELECT {_BY}, ready_at "  # noqa: S608  constants
    f"FROM jobs INDEXED BY jobs_ready WHERE {status_in(PENDING)} AND {_OF} "
    f"ORDER BY ready_at LIMIT :jobs) "
    f"GROUP BY {_BY} ORDER BY min(ready_at) LIMIT :groups"
)


@dataclass(slots=True)
class Use:
    """How many jobs run in a bucket and wait for it; `oldest` (ms) is when the first was ready."""

    used: int = 0
    waiting: int = 0
    oldest: int | None = None


@dataclass(frozen=True, slots=True)
class Uses:
    """Counts by bucket; `are_complete` says whether all jobs were counted."""

    of: dict[Bucket, Use]
    are_complete: bool


def uses(connection: sqlite3.Connection, buckets: Buckets, tenant_id: str | int | None) -> Uses:
    """Return what runs and waits in each bucket that has any; of one tenant if one is named."""
    found: dict[Bucket, Use] = defaultdict(Use)
    names = {"tenant_id": tenant_id, "jobs": MOST_JOBS, "groups": MOST_GROUPS}
    running = connection.execute(RUNNING, names).fetchall()
    waiting = connection.execute(WAITING, names).fetchall()
    for *of, jobs in running:
        for bucket in buckets.all(_candidate(*of)):
            found[bucket].used += jobs
    for *of, jobs, oldest in waiting:
        for bucket in buckets.all(_candidate(*of)):
            use = found[bucket]
            use.waiting += jobs
            use.oldest = oldest if use.oldest is None else min(use.oldest, oldest)
    counted = sum(row[4] for row in running), sum(row[4] for row in waiting)
    groups = len(running), len(waiting)
    return Uses(found, max(counted) < MOST_JOBS and max(groups) < MOST_GROUPS)


def _candidate(tenant_id: str, type_: str, pool: str, keys: str | None) -> Candidate:
    return Candidate(tenant_id, type_, pool, from_text(keys))
