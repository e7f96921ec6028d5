"""Timers: a job that is due later becomes ready when its timer fires or a sweep finds it late."""

from __future__ import annotations

from streams.dispatcher import metrics
from streams.dispatcher.job import awaits
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import requeue, wake_at
from streams.runtime.part import handles
from streams.serde.job_states import DUE_LATER
from streams.serde.records import Command, Job, Wake

_LATE_MS = 60_000


class Timers(Part):
    """Wakes jobs that go on later."""

    @handles(Wake)
    def wake(self, step: Step, command: Command, body: Wake, at: int) -> None:
        """Make a job ready whose timer fired; a timer that the job does not await is ignored."""
        job = step.table.get(command.job_id)
        if job is None or not awaits(job, body):
            metrics.STALE.labels("Wake").inc()
        else:
            requeue(step, job)

    def admitted(self, step: Step, job: Job) -> None:
        """Set the timer of a new job that is to start later, if it still is."""
        now = step.table.get(job.job_id)
        if now is not None and now.status in DUE_LATER and now.due_at:
            wake_at(step, now, now.due_at)

    def revived(self, step: Step, job: Job) -> None:
        self.admitted(step, job)

    def is_due(self, step: Step, live: Live) -> bool:
        return live.status in DUE_LATER and 0 < live.at < step.now - _LATE_MS

    def mend(self, step: Step, job: Job) -> bool:
        """Wake a job whose timer was lost."""
        metrics.TIMERS_LOST.inc()
        requeue(step, job)
        return True
