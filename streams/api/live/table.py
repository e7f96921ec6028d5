"""What runs said while they ran: tokens, log lines, and resets, each at its offset."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from streams.api.rows.json_values import Json, parsed
from streams.api.rows.table import Row, Table, no_tombstone
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import LIVE
from streams.serde.records import Job

LOG_LINES = 20
"""So many log lines are shown with a job."""
_FIRST_ROWS, _MORE_ROWS = 4, 4
_COLUMNS = "off, at, kind, run_id, epoch, step, n, text"


class Said(NamedTuple):
    """One record of a job; `at` is in milliseconds, `text` as on the topic."""

    off: int
    at: int
    kind: str
    run_id: str
    epoch: int
    step: str
    n: int
    text: str


class Source(NamedTuple):
    """A job, as the queries here name it: what another tenant says of it is not shown (G3)."""

    job_id: str
    tenant_id: str
    partition: int


def said_since(connection: sqlite3.Connection, job: Source, offset: int) -> Iterator[Said]:
    """Yield what a job said from an offset on, in the order of the topic.

    It is read a few rows at a time, and more each time: of many jobs a page takes little of each.
    """
    most = _FIRST_ROWS
    while True:
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM live"  # noqa: S608  constants
            " WHERE job_id = ? AND tenant_id = ? AND off >= ? ORDER BY off LIMIT ?",
            (job.job_id, job.tenant_id, offset, most),
        ).fetchall()
        found = [Said(*row) for row in rows]
        yield from found
        if len(found) < most:
            return
        offset, most = found[-1].off + 1, most * _MORE_ROWS


def newest_epoch(connection: sqlite3.Connection, job: Source, offset: int) -> int:
    """Return the epoch of the newest run that said something before an offset; 0 for none."""
    row = connection.execute(
        "SELECT max(epoch) FROM live"
        " WHERE job_id = ? AND tenant_id = ? AND off < ? AND kind <> 'log'",
        (job.job_id, job.tenant_id, offset),
    ).fetchone()
    return row[0] or 0


def newest_numbers(
    connection: sqlite3.Connection, job: Source, offset: int, epoch: int
) -> dict[str, int]:
    """Return the highest number of a token that a run said in each step before an offset."""
    rows = connection.execute(
        "SELECT step, max(n) FROM live"
        " WHERE job_id = ? AND tenant_id = ? AND off < ? AND kind = 'token' AND epoch = ?"
        " GROUP BY step",
        (job.job_id, job.tenant_id, offset, epoch),
    )
    return dict(rows.fetchall())


def newest_lines(connection: sqlite3.Connection, job: Job) -> list[Json]:
    """Return the newest log lines of a job that are kept, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM live INDEXED BY live_lines"  # noqa: S608  constants
        " WHERE job_id = ? AND tenant_id = ? AND kind = 'log' ORDER BY off DESC LIMIT ?",
        (job.job_id, job.tenant_id, LOG_LINES),
    ).fetchall()
    return [line_json(Said(*row)) for row in reversed(rows)]


def line_json(said: Said) -> Json:
    """Return a log line with the run and step that wrote it."""
    line = parsed(said.text)
    return {
        "at": rfc3339(said.at),
        **(line if isinstance(line, dict) else {"level": "info", "message": line, "fields": {}}),
        "run_id": said.run_id,
        "step": said.step,
        "n": said.n,
    }


def _row(record: Record) -> Row:
    said = LIVE.read(record.value)
    return (
        said["job_id"],
        record.offset,
        said["tenant_id"],
        record.timestamp,
        said["kind"],
        said["run_id"],
        said["epoch"],
        said["step"],
        said["n"],
        said["text"],
    )


TABLE = Table(
    name="live",
    topic="jobs.live",
    key="job_id TEXT, off INTEGER",
    columns="tenant_id TEXT NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, "
    "run_id TEXT NOT NULL, epoch INTEGER NOT NULL, step TEXT NOT NULL, n INTEGER NOT NULL, "
    "text TEXT NOT NULL",
    row=_row,
    split=no_tombstone,
    indexes={"by_age": "(at)", "lines": "(job_id, off) WHERE kind = 'log'"},
    expires=True,
    kept_hours=lambda settings: settings.live_kept_hours,
)
