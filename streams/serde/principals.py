"""For whom a job was made: the principal that policies compare."""

from __future__ import annotations

from streams.serde.records import Job

UNKNOWN = "unknown"
"""Of a job that an earlier release made for another job."""


def principal_of(job: Job) -> str:
    """The name of a job's submitter or replayer, or `schedule:ID` or `source:NAME` that made it."""
    if job.submitted_by is not None:
        return job.submitted_by
    if job.schedule_id is not None:
        return f"schedule:{job.schedule_id}"
    return UNKNOWN if job.event is None else f"source:{job.event.source}"
