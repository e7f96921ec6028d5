"""Schedules: when an application's jobs are made without an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Overlap = Literal["allow", "skip", "queue_one", "cancel_running"]


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What a schedule makes and when; one of `cron`, `every_ms` and `at` says the times.

    `streams.schedules.definition` makes it of what people write.
    """

    job: str
    input: str
    cron: str | None
    every_ms: int | None
    at: int | None
    tz: str
    missed: str
    grace_ms: int
    overlap: Overlap
    window_ms: int
    starts_at: int | None = None
    ends_at: int | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time of a schedule; `name` is its nominal local time and fold, which the job's id has."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule and where it stands.

    Its times up to `since` are over, and `last` names the last of them. `due_at` is its next time,
    and `look_at` is when the dispatcher looks at it next. `queued` waits for the end of `last_job`.
    """

    tenant_id: str
    schedule_id: str
    generation: int
    spec: ScheduleSpec
    app: str | None
    paused: bool
    note: str
    by: str
    since: int
    last: str
    due_at: int | None
    look_at: int | None
    tzdata: str
    queued: Occurrence | None
    last_job_id: str | None
    last_at: int | None
    skipped_at: int | None
    skipped_because: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A schedule in an application's code; `tenant` is the id of one, or `*` for each."""

    schedule_id: str
    tenant: str
    spec: ScheduleSpec
