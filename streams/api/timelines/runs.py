"""The runs of a job, as far as its record keeps them, and the times between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streams.serde import job_states, run_ends
from streams.serde.records import Attempt, Job

_ENDS = {
    job_states.RUNNING: job_states.RUNNING,
    job_states.SUCCEEDED: run_ends.SUCCEEDED,
    job_states.CANCELLED: run_ends.CANCELLED,
    job_states.NEEDS_REVIEW: run_ends.REVIEW,
    job_states.FAILED: run_ends.FAILED,
    job_states.DEAD: run_ends.FAILED,
}
"""How the newest run stands by its job's state; in any other state its job waits."""
_GOES_ON = {job_states.PENDING, job_states.SCHEDULED}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job; `ends` is None while it runs. `begins` is not `exact` if it is guessed."""

    number: int
    begins: int
    ends: int | None
    status: str
    error: str | None = None
    exact: bool = True

    def covers(self, at: int) -> bool:
        """Whether a moment is within the run."""
        return self.begins <= at and (self.ends is None or at <= self.ends)


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a job waited for a run; `ends` is None while it waits."""

    number: int
    begins: int
    ends: int | None


def runs_of(job: Job) -> list[Run]:
    """Return the runs that did not succeed and are kept, and the newest one, oldest first."""
    found, before = list[Run](), max(job.created_at, job.scheduled_at or 0)
    for number, run in enumerate(job.history, 1):
        begins = min(before, run.at) if run.began_at is None else run.began_at
        exact = run.began_at is not None
        found.append(Run(number, begins, run.at, run.kind, run.error, exact))
        before = run.at
    if job.run_id is not None and not _is_kept(job, job.history):
        found.append(_newest(job, len(found) + 1))
    return found


def gaps_of(job: Job, runs: Sequence[Run]) -> Iterator[Gap]:
    """Yield the times before the runs, and the one in which the job waits for its next run."""
    before: int | None = job.created_at
    for run in runs:
        if before is not None and run.begins > before:
            yield Gap(run.number, before, run.begins)
        before = run.ends
    if job.status in _GOES_ON and before is not None:
        yield Gap(len(runs) + 1, before, None)
    elif not runs and job.status in job_states.TERMINAL:
        yield Gap(1, job.created_at, job.updated_at)


def _is_kept(job: Job, history: Sequence[Attempt]) -> bool:
    """Whether the newest run is in the history."""
    if not history:
        return False
    if job.began_at is not None:
        return history[-1].began_at == job.began_at
    return job.status not in (job_states.RUNNING, job_states.SUCCEEDED)


def _newest(job: Job, number: int) -> Run:
    """Return the run that is not in the history; a job that waits ended it before it waited."""
    begins = job.ready_at if job.began_at is None else job.began_at
    status = _ENDS.get(job.status, run_ends.PARKED)
    ends = None if job.status in job_states.LEASED else job.updated_at
    if job.status in _GOES_ON:
        ends = max(begins, job.ready_at)
    failed = status in (run_ends.FAILED, run_ends.REVIEW)
    error = job.last_error if failed else None
    return Run(number, begins, ends, status, error, job.began_at is not None)
