"""Tools whose calls wait because the tool's circuit breaker has cut them off.

Only the dispatcher knows the circuits. A job whose last call waits for one names the tool among the
values by which it is counted, so a circuit for which nobody waits is not known here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from streams.api.limits.uses import Use
from streams.api.rows.bounded import MOST, Bounded
from streams.api.rows.json_values import Json
from streams.api.rows.table import status_in
from streams.limits.buckets import CIRCUIT, Bucket
from streams.limits.keys import from_text
from streams.serde.job_states import PENDING

WAITS = f"{status_in(PENDING)} AND instr(limit_keys, '[\"{CIRCUIT}\",') > 0"
"""SQL for jobs whose last call waits for a circuit; a quoted value in a key has a backslash."""


def cut_off(connection: sqlite3.Connection) -> Bounded:
    """Count the tools whose calls wait; so many jobs are looked at, and no more."""
    rows = connection.execute(
        f"SELECT limit_keys FROM jobs WHERE {WAITS} LIMIT {MOST + 1}"  # noqa: S608  constants
    ).fetchall()
    keys = (key for (text,) in rows[:MOST] for key in from_text(text))
    return Bounded(len({tool for limit, tool in keys if limit == CIRCUIT}), len(rows) > MOST)


def circuits_json(uses: Mapping[Bucket, Use], now: int) -> list[Json]:
    """Return the tools for which jobs wait, those with the longest wait first."""
    found = [(bucket.key, use) for bucket, use in uses.items() if bucket.limit == CIRCUIT]
    waiting = [(use.oldest, tool, use) for tool, use in found if use.oldest is not None]
    return [
        {
            "tool": tool,
            "waiting": use.waiting,
            "trying": use.used,
            "oldest_seconds": round(max(0, now - oldest) / 1000, 3),
        }
        for oldest, tool, use in sorted(waiting, key=lambda each: each[:2])
    ]
