"""Jobs that were made of other jobs, or of old events: when, by whom, why, what became of them."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.http.moments import rfc3339
from streams.serde.codec import JOB

_MOST = 100
"""At most this many replays of one job are named."""

_OF_EVENT = "SELECT job_id FROM jobs WHERE replayed_event = :event_id AND tenant_id = :tenant_id"
_DIRECT = "SELECT job_id FROM jobs WHERE replay_of = :job_id AND tenant_id = :tenant_id"
_DESCENDANTS = """
WITH RECURSIVE made(job_id) AS (
  SELECT job_id FROM jobs WHERE replay_of = :job_id AND tenant_id = :tenant_id
  UNION SELECT j.job_id FROM made JOIN jobs j
    ON j.replay_of = made.job_id AND j.tenant_id = :tenant_id)
SELECT job_id FROM made
"""


def replays(
    connection: sqlite3.Connection, tenant_id: str, job_id: str, *, of_replays: bool = False
) -> list[Json]:
    """Return the jobs made of this one, newest first; with `of_replays` also those made of them."""
    ids = _DESCENDANTS if of_replays else _DIRECT
    return _made(
        connection, f"({ids}) AND job_id <> :job_id", {"job_id": job_id, "tenant_id": tenant_id}
    )


def of_event(connection: sqlite3.Connection, tenant_id: str, event_id: str) -> list[Json]:
    """Return the jobs that replays of events made of an event, newest first."""
    return _made(connection, f"({_OF_EVENT})", {"event_id": event_id, "tenant_id": tenant_id})


def _made(connection: sqlite3.Connection, ids: str, values: dict[str, str]) -> list[Json]:
    rows = connection.execute(
        f"SELECT record FROM jobs WHERE job_id IN {ids}"  # noqa: S608  constants
        " ORDER BY created_at DESC, job_id DESC LIMIT :most",
        {**values, "most": _MOST},
    )
    return [_replay_json(record) for (record,) in rows]


def _replay_json(record: bytes) -> Json:
    made = JOB.decode(record)
    return {
        "job_id": made.job_id,
        "replay_of": made.replay_of,
        "replay_id": made.replay_id,
        "type": made.type,
        "status": made.status,
        "created_at": rfc3339(made.created_at),
        "note": made.replay_note,
        "submitted_by": made.submitted_by,
    }
