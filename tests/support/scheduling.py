"""Schedules at a dispatcher in memory: what a test asks for, and what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streams.runtime.driver import START_MS
from streams.schedules.definition import definition
from streams.serde.codec import JOB, SCHEDULE_ROW
from streams.serde.records import (
    DeclaredSchedule,
    DeclareSchedules,
    DeleteSchedule,
    Job,
    PauseSchedule,
    ScheduleRow,
    ScheduleSpec,
    SetSchedule,
)
from support.dispatching import Desk, ScriptedWorker

MINUTE, HOUR, DAY = 60, 3_600, 86_400
START = datetime.fromtimestamp(START_MS / 1000, UTC)
"""The driver's clock begins on Sunday, 2025-06-15, at 15:06:40 UTC."""


def spec(job: str = "draft_reply", **fields: Any) -> ScheduleSpec:
    """A definition; every minute unless told."""
    times = fields.keys() & {"cron", "every_seconds", "at"}
    return definition(job, '{"n":1}', **(fields if times else {"every_seconds": 60, **fields}))


class Clockwork(Desk):
    """A desk with schedules, of which `worker` runs the jobs when the test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = ScriptedWorker(self)

    def schedule(
        self, id_: str = "s", tenant: str = "acme", *, paused: bool | None = None, **fields: Any
    ) -> None:
        self.command(SetSchedule(id_, spec(**fields), paused, "", "ops"), tenant=tenant)

    def pause(self, id_: str = "s", *, paused: bool = True, note: str = "closed") -> None:
        self.command(PauseSchedule(id_, paused, note, "ops"))

    def delete(self, id_: str = "s") -> None:
        self.command(DeleteSchedule(id_, "ops"))

    def declare(self, *schedules: DeclaredSchedule, app: str = "support") -> None:
        self.command(DeclareSchedules(app, schedules), tenant="")
        self.driver.advance(0.3)

    def suspend(self, seconds: float) -> None:
        """Let the clock go on while nothing happens, as on a machine that is suspended."""
        self.driver._clock.ms += seconds * 1000
        self.driver.advance(0.3)

    def rows(self) -> dict[tuple[str, str], ScheduleRow]:
        """The schedules by tenant and id."""
        newest = {record.key: record.value for record in self.driver.output("schedules")}
        rows = [SCHEDULE_ROW.decode(value) for value in newest.values() if value is not None]
        return {(row.tenant_id, row.schedule_id): row for row in rows}

    def row(self, id_: str = "s", tenant: str = "acme") -> ScheduleRow:
        return self.rows()[tenant, id_]

    def made(self, id_: str = "s", tenant: str = "acme") -> list[Job]:
        """The jobs of a schedule as they are now, in the order of its times."""
        newest: dict[str, Job] = {}
        for record in self.driver.output("jobs"):
            if record.value is not None:
                job = JOB.decode(record.value)
                newest[job.job_id] = job
        of = [j for j in newest.values() if (j.schedule_id, j.tenant_id) == (id_, tenant)]
        return sorted(of, key=lambda job: job.scheduled_for or 0)

    def times(self, id_: str = "s", tenant: str = "acme") -> list[str]:
        """The times of a schedule's jobs."""
        return [clock(job.scheduled_for or 0) for job in self.made(id_, tenant)]

    def finish(self, job: Job) -> None:
        """Run a job to its end."""
        self.worker.heartbeat()
        self.driver.advance(0.2)
        self.worker.end(self.lease(job.job_id), "succeeded")
        self.driver.advance(0.2)


def clock(at: int) -> str:
    """A moment as day and time in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d %H:%M:%S")


def moment(text: str) -> int:
    """The milliseconds of an ISO time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
