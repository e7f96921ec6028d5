"""Queries for judging a replay: which jobs share its scope, and which effects have happened."""

from __future__ import annotations

import sqlite3
from typing import get_args

from streams.operator.http.letter_views import Replayed
from streams.serde.codec import LEDGER_ENTRY
from streams.serde.records import TERMINAL, Job, JobStatus, LedgerEntry

_LIVE = ", ".join(f"'{status}'" for status in get_args(JobStatus) if status not in TERMINAL)
_BEGUN = ("done", "claimed", "unknown", "review")
"""Of effects that happened, or may have."""

# The jobs of one piece of work: the first one, its replays, and theirs.
_FAMILY = """
WITH RECURSIVE
  up(id, parent) AS (
    SELECT job_id, replay_of FROM jobs WHERE job_id = :job_id AND tenant_id = :tenant_id
    UNION SELECT j.job_id, j.replay_of FROM up JOIN jobs j
      ON j.job_id = up.parent AND j.tenant_id = :tenant_id),
  family(id) AS (
    SELECT id FROM up
    UNION SELECT j.job_id FROM family JOIN jobs j
      ON j.replay_of = family.id AND j.tenant_id = :tenant_id)
SELECT e.record FROM effects e
WHERE e.tenant_id = :tenant_id AND e.scope IN
  (SELECT j.scope FROM family JOIN jobs j ON j.job_id = family.id)
ORDER BY e.first_claimed_at, e.action
"""


def sharing(connection: sqlite3.Connection, job: Job) -> Replayed | None:
    """Another job that has not ended and whose effects lie in the scope of this one."""
    row = connection.execute(
        "SELECT job_id, status, created_at FROM jobs WHERE tenant_id = ? AND scope = ?"  # noqa: S608  constants
        f" AND job_id <> ? AND status IN ({_LIVE}) LIMIT 1",
        (job.tenant_id, job.scope, job.job_id),
    ).fetchone()
    return None if row is None else Replayed(*row)


def begun_effects(connection: sqlite3.Connection, job: Job) -> list[LedgerEntry]:
    """Effects of the job and of all its replays that happened, or may have; one for each action.

    A fresh scope would begin them once more, whichever of these jobs has done them.
    """
    named = {"job_id": job.job_id, "tenant_id": job.tenant_id}
    found = [LEDGER_ENTRY.decode(record) for (record,) in connection.execute(_FAMILY, named)]
    begun = {entry.action: entry for entry in found if entry.status in _BEGUN}
    return list(begun.values())
