"""Schedules as the dispatcher last wrote them, with their next times."""

from __future__ import annotations

import sqlite3
from itertools import islice

from streams.api.rows.json_values import Json, parsed
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table, find
from streams.api.tenants import table as tenants
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.schedules import time_zones
from streams.schedules.timetable import Timetable, WrongSchedule, shift_of
from streams.serde.codec import SCHEDULE_ROW
from streams.serde.records import ScheduleRow

_NEXT = 5


def schedule(
    connection: sqlite3.Connection, tenant_id: str, schedule_id: str
) -> ScheduleRow | None:
    """Return the newest state of a schedule."""
    return find(connection, SCHEDULE_ROW, "schedules", tenant_id=tenant_id, id=schedule_id)


def shown_schedule(connection: sqlite3.Connection, row: ScheduleRow) -> Json:
    """Return a schedule as the API shows it: after an erasure nobody is shown its input."""
    erased = tenants.erasure(connection, row.tenant_id)
    return {**schedule_json(row), "input": None} if erased else schedule_json(row)


def schedule_json(row: ScheduleRow) -> Json:
    """Return a schedule; `next` has its next five times, of a paused one as if it went on now."""
    spec = row.spec
    return {
        "id": row.schedule_id,
        "tenant_id": row.tenant_id,
        "cron": spec.cron,
        "every_seconds": None if spec.every_ms is None else _seconds(spec.every_ms),
        "at": rfc3339(spec.at),
        "tz": spec.tz,
        "job": spec.job,
        "input": parsed(spec.input),
        "missed": spec.missed,
        "grace_seconds": _seconds(spec.grace_ms),
        "overlap": spec.overlap,
        "window_seconds": _seconds(spec.window_ms),
        "from": rfc3339(spec.starts_at),
        "until": rfc3339(spec.ends_at),
        "paused": row.paused,
        "note": row.note,
        "by": row.by,
        "app": row.app,
        "generation": row.generation,
        "next": [rfc3339(at) for at in _next(row)],
        "last": _last(row),
        "skipped": _skipped(row),
        "queued_for": None if row.queued is None else rfc3339(row.queued.at),
        "tzdata": row.tzdata or time_zones.version(),
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
    }


def _next(row: ScheduleRow) -> list[int]:
    table = Timetable(row.spec, shift_of(row.tenant_id, row.schedule_id, row.spec.window_ms))
    after = max(row.since, wall_ms()) if row.paused else row.since
    try:
        return [each.at for each in islice(table.after(after, row.last), _NEXT)]
    except WrongSchedule:  # another release made it
        return []


def _last(row: ScheduleRow) -> Json | None:
    if row.last_job_id is None:
        return None
    return {"job_id": row.last_job_id, "scheduled_for": rfc3339(row.last_at)}


def _skipped(row: ScheduleRow) -> Json | None:
    if row.skipped_at is None:
        return None
    return {"scheduled_for": rfc3339(row.skipped_at), "because": row.skipped_because}


def _seconds(milliseconds: int) -> int | float:
    seconds = milliseconds / 1000
    return int(seconds) if seconds.is_integer() else seconds


def _row(record: Record) -> Row:
    found = SCHEDULE_ROW.decode(record.value)
    return found.tenant_id, found.schedule_id, found.created_at, record.value


def _item(connection: sqlite3.Connection, entry: Entry) -> Json:
    return shown_schedule(connection, SCHEDULE_ROW.decode(entry.record))


TABLE = Table(
    name="schedules",
    topic="schedules",
    key="tenant_id TEXT, id TEXT",
    columns="at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={"newest": "(at, id)", "of_tenant": "(tenant_id, at, id)"},
)
LISTING = Listing(TABLE.name, ("/v1/schedules", "/v1/tenants/{tenant_id}/schedules"), _item)
