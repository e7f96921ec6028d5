"""Deadlines: a job that has not begun by its time (`expires_after_seconds`) is cancelled.

The time counts from when the job could have begun: from its event or submission, or from the time
for which it is scheduled. Replays have none, because a person asked for them.

Keys in the store `parts`: `O` time job_id, empty, until the job begins or ends.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import ClassVar

from streams.dispatcher import metrics
from streams.dispatcher.due import DueSpace
from streams.dispatcher.job import is_live
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.routing import declared_for, has_begun, is_replay
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import withdraw
from streams.serde.records import Job

EXPIRED = "expired"
_DUE = b"O"
_DEADLINES = DueSpace(_DUE)


class StartDeadlines(Part):
    """Ends some of the jobs whose time is over, in each step."""

    keys: ClassVar = {_DUE: "until when jobs have to begin"}

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._is_declared = any(
            declared.expires_after_seconds is not None
            for declared in (*self.topology.routes, *self.topology.job_types.values())
        )
        self._behind = b""

    def admitted(self, step: Step, job: Job) -> None:
        """Give a new job its deadline."""
        if not self._is_declared and job.expires_at is None:
            return
        now = step.table.get(job.job_id)
        if now is None or not is_live(now) or has_begun(now) or is_replay(now):
            return
        expires_at = now.expires_at or self._expires_at(now)
        if expires_at is None:
            return
        if now.expires_at is None:
            now = replace(now, expires_at=expires_at)
            step.table.put(now)
        if not self._ended_late(step, now):
            step.store.put(_DEADLINES.key(expires_at, now.job_id), b"")

    def revived(self, step: Step, job: Job) -> None:
        self.admitted(step, job)

    def may_go_on(self, step: Step, job: Job) -> bool:
        """Whether a job may still begin; one that has begun goes on."""
        return has_begun(job) or not self._ended_late(step, job)

    def begins(self, step: Step, job: Job) -> Job:
        self._forget(step, job)
        return job

    def ended(self, step: Step, job: Job) -> None:
        self._forget(step, job)

    def tick(self, step: Step) -> None:
        """End some of the jobs that are late."""
        step.on_undo(setattr, self, "_behind", self._behind)
        for entry in _DEADLINES.due(step.store, step.now, AT_ONCE, self._behind):
            self._behind = entry.key
            step.store.delete(entry.key)
            job = step.table.get(entry.name[0])
            if job is not None and is_live(job) and not has_begun(job):
                self._ended_late(step, job)

    def _expires_at(self, job: Job) -> int | None:
        """When a job has to have begun; None if nothing is declared for it."""
        spans = (declared.expires_after_seconds for declared in declared_for(job, self.topology))
        seconds = next((span for span in spans if span is not None), None)
        start = job.due_at or job.event_time
        return None if seconds is None else start + ceil(seconds * 1000)

    def _ended_late(self, step: Step, job: Job) -> bool:
        """End a job if its time is over; whether it is."""
        if job.expires_at is None or job.expires_at > step.now:
            return False
        metrics.EXPIRED.labels(metrics.of_type(job.type)).inc()
        withdraw(step, job, "it had not begun in time (expires_after_seconds)", EXPIRED)
        return True

    def _forget(self, step: Step, job: Job) -> None:
        if job.expires_at is not None and not has_begun(job):
            step.store.delete(_DEADLINES.key(job.expires_at, job.job_id))
