"""Whether the operator's read model has exactly the rows that `operator_records` makes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from operator_records import EVENT_EVERY, FAILS_EVERY, final_status


def missing(path: Path, jobs: int) -> int:
    """Return how many rows are missing or wrong: jobs, each once and in its last state, and others.

    The operator that wrote the file has stopped.
    """
    with closing(sqlite3.connect(path)) as connection:
        found = Counter(connection.execute("SELECT job_id, status FROM jobs"))
        expected = Counter((f"job_{number}", final_status(number)) for number in range(jobs))
        wrong = sum(((expected - found) + (found - expected)).values())
        wrong += abs(_rows(connection, "dead_letters") - len(range(0, jobs, FAILS_EVERY)))
        return wrong + abs(_rows(connection, "events") - len(range(0, jobs, EVENT_EVERY)))


def _rows(connection: sqlite3.Connection, table: str) -> int:
    (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(found)
