"""Finds a job that a call names, or refuses the call."""

from __future__ import annotations

from streams.api.decisions import Decision
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job


async def commanded(state: AppState, job_id: str, decision: Decision) -> Json:
    """Return the job that a command changes, as a call answers it.

    `answered` is whether the dispatcher carried the command out within `SHOWN_WITHIN_SECONDS`. The
    command is durable either way.
    """
    return {**await shown_job(state, job_id), **decision.json()}


async def known_job(state: AppState, job_id: str) -> Job:
    """Return the newest state of a job; refuse with 404 if it is unknown."""
    job = await state.query(lambda db: jobs.job(db, job_id))
    if job is None:
        raise unknown_job(job_id)
    return job


def require_live(job: Job) -> None:
    """Refuse with 409 a job that has ended."""
    if job.status in TERMINAL:
        raise Refusal(
            409,
            "job-ended",
            f"job {job.job_id} has already ended: {job.status}; "
            "only a job that has not ended is cancelled, moved or settled",
        )


async def shown_job(state: AppState, job_id: str) -> Json:
    """Return a job as the API shows it; refuse with 404 if it is unknown."""
    shown = await state.query(lambda db: jobs.shown_job(db, job_id, state.topology))
    if shown is None:
        raise unknown_job(job_id)
    return shown


def unknown_job(job_id: str) -> Refusal:
    """Return the refusal of a job that has no row."""
    all_ = get("jobs")
    hint = "it was never accepted, is not shown yet, or has been purged since it ended"
    return unknown("job", job_id, f"{hint}: compare the id with {all_}", all_)
