"""Schedules in the stories: what is asked of them, and what their jobs must be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from simulation.outside import Violation
from simulation.requests import Asked
from simulation.wiring import TENANTS
from streams.runtime.processor import Record
from streams.schedules.definition import OVERLAPS, definition
from streams.serde.codec import SCHEDULE_ROW
from streams.serde.job_states import CANCELLED, TERMINAL
from streams.serde.records import (
    DeleteSchedule,
    Job,
    PauseSchedule,
    ScheduleRow,
    SetSchedule,
)

if TYPE_CHECKING:
    from simulation.world import World

_TIMES: tuple[dict[str, Any], ...] = (
    {"every_seconds": 20},
    {"every_seconds": 45, "window_seconds": 30},
    {"cron": "* * * * *"},
    {"cron": "*/2 * * * *", "tz": "Europe/Berlin"},
)
_MISSED = ("latest", "skip", "all(3)")
_ALONE = ("skip", "queue_one", "cancel_running")

Name = tuple[str, str]
"""Tenant and id."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a schedule makes; its id has its overlap, so that its jobs can be judged by that."""

    root: str
    job: str
    overlap: str


class Schedules:
    """Sets, pauses and deletes schedules, and holds what they make against that."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asks: dict[str, Ask] = {}
        """By root, which the input of each job has."""
        self._rows: dict[Name, ScheduleRow] = {}
        self._made: dict[tuple[Name, int], str] = {}
        """By schedule and time: the job."""
        self._jobs: dict[Name, set[str]] = defaultdict(set)

    # What is asked.

    def set(self, tenant: str, key: str, job: str, times: int, missed: int, overlap: int) -> None:
        """Create or change a schedule; each definition has an input of its own."""
        policy = OVERLAPS[overlap % len(OVERLAPS)]
        root = f"sch_{tenant}-{job}-{key}-{len(self._asks) + 1}"
        self._asks[root] = Ask(root, job, policy)
        text = orjson.dumps({"root": root, "tenant": tenant}).decode()
        spec = definition(
            job,
            text,
            overlap=policy,
            missed=_MISSED[missed % len(_MISSED)],
            **_TIMES[times % len(_TIMES)],
        )
        self._world.desk.command(SetSchedule(f"{policy}-{key}", spec, None, "", "ops"), tenant, "")

    def pause(self, which: int, *, paused: bool) -> None:
        """The so-manieth schedule stops, or goes on."""
        if name := self._pick(which):
            self._world.desk.command(PauseSchedule(name[1], paused, "", "ops"), name[0], "")

    def delete(self, which: int) -> None:
        """The so-manieth schedule is removed."""
        if name := self._pick(which):
            self._world.desk.command(DeleteSchedule(name[1], "ops"), name[0], "")

    def delete_all(self) -> None:
        """At the end, all must come to rest; a command that is still on its way may set one."""
        for tenant in TENANTS:
            for policy in OVERLAPS:
                for key in ("0", "1", "2"):
                    self._world.desk.command(DeleteSchedule(f"{policy}-{key}", "ops"), tenant, "")

    # What came of it.

    def changed(self, record: Record) -> None:
        """A record of `schedules`."""
        if record.value is None:
            tenant, _, id_ = (record.key or b"").decode().partition("\0")
            self._rows.pop((tenant, id_), None)
            return
        row = SCHEDULE_ROW.decode(record.value)
        self._rows[row.tenant_id, row.schedule_id] = row

    def made(self, job: Job, at: int) -> None:
        """A job of a schedule is there for the first time; `at` is the time of its record.

        Raises:
            Violation: it is early, or not the only one of its time.
        """
        name, time = (job.tenant_id, job.schedule_id or ""), job.scheduled_for or 0
        if job.replay_of is not None:
            return
        if at < time:
            raise Violation(
                "schedule_early", f"{job.job_id} of {name}, due at {time}: made at {at}"
            )
        other = self._made.setdefault((name, time), job.job_id)
        if other != job.job_id:
            raise Violation("schedule_twice", f"{job.job_id} and {other} of {name} at {time}")
        self._jobs[name].add(job.job_id)
        root = self._world.judge.root_of(job)
        ask = self._asks[orjson.loads(job.input)["root"]]
        asked = Asked(root, job.tenant_id, job.job_id, ask.job, job.created_at, owed=True)
        self._world.desk.noted(asked)

    def look(self) -> None:
        """All that was committed has been read.

        Raises:
            Violation: two jobs of a schedule live that makes one at a time.
        """
        for name, ids in self._jobs.items():
            if name[1].rpartition("-")[0] not in _ALONE:
                continue
            jobs = [job for id_ in ids if (job := self._at_work(id_)) is not None]
            live = [j.job_id for j in jobs if j.status not in TERMINAL and not _came_back(j)]
            if len(live) > 1:
                raise Violation("schedule_overlap", f"{live} of {name} live")

    def _at_work(self, job_id: str) -> Job | None:
        """A job, or the replay that took its place in review."""
        job = self._world.judge.jobs.get(job_id)
        while job is not None and job.status == CANCELLED and job.replayed_as is not None:
            job = self._world.judge.jobs.get(job.replayed_as)
        return job

    def cancels(self, job: Job) -> bool:
        """Whether a schedule may have cancelled a job of its own."""
        return (job.schedule_id or "").startswith("cancel_running-")

    def at_the_end(self) -> None:
        """Raise Violation if a schedule is left that was deleted."""
        if self._rows:
            raise Violation("schedule_left", f"{list(self._rows)}")

    def _pick(self, which: int) -> Name | None:
        names = sorted(self._rows)
        return names[which % len(names)] if names else None


def _came_back(job: Job) -> bool:
    """Whether a job may have been dead for want of a worker, while the next one was made."""
    return job.type in ("late", "crm")
