"""Transitions of a schedule, as functions from one frozen `ScheduleRow` to the next.

Times are in milliseconds, by the broker's time.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from streams.dispatcher import metrics
from streams.schedules import time_zones
from streams.schedules.timetable import Timetable, WrongSchedule, shift_of
from streams.serde.records import Occurrence, ScheduleRow, ScheduleSpec

log = structlog.get_logger(__name__)


def timetable(row: ScheduleRow) -> Timetable:
    """When the schedule fires."""
    shift = shift_of(row.tenant_id, row.schedule_id, row.spec.window_ms)
    return Timetable(row.spec, shift)


def created(
    tenant_id: str, schedule_id: str, spec: ScheduleSpec, app: str | None, by: str, at: int
) -> ScheduleRow:
    """A new schedule, whose first time is after `at`."""
    return ScheduleRow(
        tenant_id=tenant_id,
        schedule_id=schedule_id,
        generation=1,
        spec=spec,
        app=app,
        paused=False,
        note="",
        by=by,
        since=at,
        last="",
        due_at=None,
        look_at=None,
        tzdata="",
        queued=None,
        last_job_id=None,
        last_at=None,
        skipped_at=None,
        skipped_because="",
        created_at=at,
        updated_at=at,
    )


def changed(row: ScheduleRow, spec: ScheduleSpec, by: str, at: int) -> ScheduleRow:
    """The schedule with another definition; what waits of the former one makes no job.

    Its times up to `since` stay over: the command may be read a second time.
    """
    if spec == row.spec:
        return row
    return replace(
        _passed_over(row, at, "the schedule was changed"),
        generation=row.generation + 1,
        spec=spec,
        by=by,
        since=max(row.since, at),
        last="",
        queued=None,
    )


def paused(row: ScheduleRow, pause: bool, note: str, by: str, at: int) -> ScheduleRow:
    """The schedule stopped, or going on; times that come while it is stopped make no job."""
    if pause == row.paused:
        return row
    since, row = max(row.since, at), _passed_over(row, at, "the schedule was paused")
    return replace(row, paused=pause, note=note, by=by, since=since, last="", queued=None)


def planned(row: ScheduleRow, now: int, keep_ms: int) -> ScheduleRow:
    """The schedule with its next time, by the present rules of its zone.

    It is looked at after `now`, however late that is. One without a time is looked at once more
    after `keep_ms`, to be forgotten.
    """
    due = None if row.paused else _next(row)
    release = time_zones.version() if row.spec.cron is not None else ""
    row = replace(row, due_at=due, tzdata=release, updated_at=now)
    look = None if due is None else max(due, now + 1)
    return replace(row, look_at=now + keep_ms if is_over(row) else look)


def is_over(row: ScheduleRow) -> bool:
    """Whether it will never fire again, and nothing of it waits."""
    return row.due_at is None and row.queued is None and not row.paused


def skipped(row: ScheduleRow, occurrence: Occurrence, because: str) -> ScheduleRow:
    """The schedule after a time that makes no job, which is counted."""
    metrics.SCHEDULES.labels("skipped").inc()
    return replace(row, skipped_at=occurrence.at, skipped_because=because)


def unread(row: ScheduleRow, now: int, error: WrongSchedule) -> ScheduleRow:
    """The schedule after times that this release cannot tell; it goes on after `now`."""
    log.error(
        "a schedule makes no job, because this release cannot read it: set it again",
        tenant_id=row.tenant_id,
        schedule_id=row.schedule_id,
        error=str(error),
    )
    due = Occurrence(row.due_at or now, "")
    return skipped(replace(row, since=now, last=""), due, f"it cannot be read: {error}")


def _passed_over(row: ScheduleRow, at: int, because: str) -> ScheduleRow:
    """The schedule after the last time that had come by `at`, or waited, if that made no job."""
    dropped = _last_due(row, at) or row.queued
    return row if dropped is None else skipped(row, dropped, because)


def _last_due(row: ScheduleRow, at: int) -> Occurrence | None:
    if row.due_at is None or row.due_at > at:
        return None
    try:
        return next(iter(timetable(row).latest(row.since, at, 1, row.last)), None)
    except WrongSchedule:
        return None


def _next(row: ScheduleRow) -> int | None:
    try:
        found = next(timetable(row).after(row.since, row.last), None)
    except WrongSchedule:  # rules or a parser of another release do not know it
        return None
    return None if found is None else found.at
