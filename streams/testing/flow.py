"""Lets things happen: frames go between worker and pipeline, and time passes where none do."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil

from streams.serde import job_states
from streams.serde.codec import JOB, SCHEDULE_ROW
from streams.serde.records import Job
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.worker_process import WorkerProcess

_RUNNING_MS = 1_000
"""While a lease lives, the dispatcher looks at least so often."""
_WAITING_MS = 5_000
_NEVER = 2**63
_TICK_MS = 25
"""The pipeline's own pace, at which a timer that is due fires."""


class Stuck(AssertionError):
    """A test waits for something that does not come."""


class Flow:
    """Moves one bench on. `worker` is the process that runs, if one does.

    `patience` is how many real seconds one call may take. `died` is called where the process has
    died while things happened; it starts another.
    """

    def __init__(self, pipeline: PipelineInMemory, patience: float):
        self.worker: WorkerProcess | None = None
        self.died: Callable[[], None] = lambda: None
        self._pipeline = pipeline
        self._patience = patience
        self._live: dict[str, Job] = {}
        self._jobs_read = 0
        self._times: dict[bytes | None, int] = {}
        self._schedules_read = 0

    def advance(self, seconds: float) -> None:
        """Let time pass, with whatever happens meanwhile."""
        end = self._pipeline.now + ceil(seconds * 1000)
        if seconds * 1000 > _TICK_MS:
            self._pass(_TICK_MS)  # a worker may have declared schedules
        self._go_on(lambda: self._pipeline.now >= end, end, lambda: f"{seconds:g} s pass")

    def until(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        """Let happen what can, and time pass, until the condition holds.

        Raises:
            Stuck: nothing more will happen, or patience is over; it says `what` is waited for.
        """
        self._go_on(condition, None, what)

    def settle(self) -> None:
        """Let everything happen that can happen at this moment."""
        self._settle(time.monotonic() + self._patience, lambda: "everything settles")

    def _go_on(
        self, condition: Callable[[], bool], end: int | None, what: Callable[[], str]
    ) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            self._settle(deadline, what)
            if condition():
                return
            wait = self._next_wait()
            if end is not None:
                longest = min(self._next_time(), end) - self._pipeline.now
                wait = longest if wait is None else min(wait, longest)
            if wait is None:
                raise Stuck(f"nothing more will happen, and still waited until {what()}")
            self._pass(wait)

    def _settle(self, deadline: float, what: Callable[[], str]) -> None:
        while True:
            if time.monotonic() > deadline:
                raise Stuck(self._impatient(what()))
            started = time.monotonic()
            self._run_worker(deadline)
            if self.worker is not None and self.worker.exchange():
                continue
            if self.worker is None or not self.worker.loop.awaits_answer():
                return
            self._pass(max(1, round((time.monotonic() - started) * 1000)))

    def _run_worker(self, deadline: float) -> None:
        if self.worker is not None and not self.worker.is_dead:
            self.worker.loop.run_until_idle(deadline)
        if self.worker is not None and self.worker.is_dead:
            self.died()

    def _impatient(self, what: str) -> str:
        return (
            f"after {self._patience:g} real seconds still waited until {what}: does a handler wait "
            "for a socket or a thread? If the loop of an async test has to answer it, await "
            "asyncio.to_thread(job.run); or give the bench more `patience`"
        )

    def _next_wait(self) -> int | None:
        """Milliseconds until something may happen; None if nothing will."""
        now, waits = self._pipeline.now, list[int]()
        for job in self._live_jobs():
            if job.status in job_states.LEASED:
                waits.append(_RUNNING_MS)
            elif job.status in job_states.DUE_LATER and job.due_at:
                waits.append(max(_TICK_MS, job.due_at - now))
            elif job.status in job_states.MOVABLE - job_states.DUE_LATER:
                waits.append(_WAITING_MS)
        if waits and self.worker is not None and self.worker.loop.wakes_in is not None:
            waits.append(max(1, ceil(self.worker.loop.wakes_in * 1000)))
        return min(waits, default=None)

    def _next_time(self) -> int:
        """When the next job of a schedule is due: it is not made up for at the end of a call."""
        records = self._pipeline.output("schedules")
        for record in records[self._schedules_read :]:
            row = None if record.value is None else SCHEDULE_ROW.decode(record.value)
            self._times[record.key] = _NEVER if row is None or not row.due_at else row.due_at
        self._schedules_read = len(records)
        due = min(self._times.values(), default=_NEVER)
        return max(due, self._pipeline.now + _TICK_MS)

    def _live_jobs(self) -> list[Job]:
        records = self._pipeline.output("jobs")
        for record in records[self._jobs_read :]:
            job = None if record.value is None else JOB.decode(record.value)
            if job is None or job.status in job_states.TERMINAL:
                self._live.pop((record.key or b"").decode(), None)
            else:
                self._live[job.job_id] = job
        self._jobs_read = len(records)
        return list(self._live.values())

    def _pass(self, milliseconds: int) -> None:
        self._pipeline.pass_time(milliseconds)
        if self.worker is not None and not self.worker.is_dead:
            self.worker.tick()
