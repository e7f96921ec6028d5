"""Makes the jobs of a schedule's times, each once, by the rule for times that overlap."""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher import metrics
from streams.dispatcher.job import is_live
from streams.dispatcher.schedule import skipped
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import place, stop
from streams.new_jobs import from_schedule
from streams.serde.ids import scheduled_job_id
from streams.serde.records import Job, Occurrence, ScheduleRow
from streams.topology.model import Topology


def take(step: Step, row: ScheduleRow, time: Occurrence, topology: Topology) -> ScheduleRow:
    """Make the job of a time, unless that of an earlier one lives; return the schedule after it."""
    live = None if row.spec.overlap == "allow" else live_job(step, row)
    if live is None:
        return make(step, row, time, topology)
    if row.spec.overlap == "skip":
        return skipped(row, time, f"job {live.job_id} had not ended")
    if row.spec.overlap == "queue_one" and row.queued is not None:
        return skipped(row, time, f"another time waited for job {live.job_id}")
    if row.queued is not None:
        row = skipped(row, row.queued, f"its next time came before job {live.job_id} ended")
    metrics.SCHEDULES.labels("queued").inc()
    row = replace(row, queued=time)
    if row.spec.overlap == "cancel_running":
        stop(step, live, f"schedule {row.schedule_id}: its next time has come")
        if live_job(step, row) is None:
            return make(step, replace(row, queued=None), time, topology)
    return row


def make(step: Step, row: ScheduleRow, time: Occurrence, topology: Topology) -> ScheduleRow:
    """Make the job of a time, unless it was made before; return the schedule after it."""
    job_id = _job_id(step, row, time)
    found = place(step, job_id, time.at)
    if found is None and step.table.get(job_id) is None:
        return skipped(row, time, "it was too long ago")
    if found is None:
        metrics.TWINS.inc()
    else:
        step.admit(from_schedule(job_id, row, time, topology, place=found, now=step.now))
        metrics.SCHEDULES.labels("made").inc()
        metrics.SCHEDULE_LATENESS.observe(max(0, step.now - time.at) / 1000)
    return replace(row, last_job_id=job_id, last_at=time.at)


def _job_id(step: Step, row: ScheduleRow, time: Occurrence) -> str:
    """The id of a time's job, which no job has of a deleted schedule of the same id.

    In another time zone a nominal time may come twice.
    """
    who = row.tenant_id, row.schedule_id, row.generation
    job_id = scheduled_job_id(*who, time.name)
    known = step.table.get(job_id)
    if known is None or known.created_at >= row.created_at:
        return job_id
    return scheduled_job_id(*who, f"{time.name} {row.created_at}")


def live_job(step: Step, row: ScheduleRow) -> Job | None:
    """Return the job of a schedule's last time, if it lives."""
    job = None if row.last_job_id is None else step.table.get(row.last_job_id)
    return job if job is not None and is_live(job) else None
