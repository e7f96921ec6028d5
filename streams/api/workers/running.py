"""Workers by name, with the jobs that run at them, and the drains that people have asked for.

No owner publishes which workers are connected. So an idle worker is listed only while it is
drained.
"""

from __future__ import annotations

import sqlite3
from collections import Counter

from streams.api.jobs.running import IS_RUNNING
from streams.api.pauses.paused import all_pauses, who_json
from streams.api.rows.json_values import Json
from streams.serde.codec import JOB
from streams.serde.ids import split_worker

MOST = 5_000
"""So many running jobs are counted; more are told, and not counted."""
_JOBS = f"SELECT record FROM jobs WHERE {IS_RUNNING} LIMIT ?"  # noqa: S608  constants


def workers(connection: sqlite3.Connection) -> Json:
    """Return the workers by name, and whether more jobs run than were counted."""
    running, pauses = names_running(connection), all_pauses(connection)
    drained = {value: each for (scope, value), each in pauses.items() if scope == "worker"}
    rows = [
        {
            "worker": name,
            "running": running[name],
            "drained": who_json(drained[name]) if name in drained else None,
        }
        for name in sorted(running.keys() | drained.keys())
    ]
    return {"workers": rows, "counts_all": running.total() < MOST}


def names_running(connection: sqlite3.Connection) -> Counter[str]:
    """Return how many jobs run at each worker, of the jobs that the caller may see."""
    found = connection.execute(_JOBS, (MOST,))
    ids = (JOB.decode(record).worker_id or "" for (record,) in found)
    return Counter(split_worker(worker_id)[0] for worker_id in ids if worker_id)
