"""Decides about the finished steps of a job whose code diverged from them."""

from __future__ import annotations

from streams.api.decisions import decided, first_decision
from streams.api.jobs.known import commanded, known_job
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.steps.steps_request import StepsRequest
from streams.api.steps.table import steps_of
from streams.serde.records import Job, SettleSteps


async def settle_steps(state: AppState, job_id: str, wanted: StepsRequest) -> Json:
    """Let a job go on: steps in `keep` need not be asked for any more, those in `drop` are deleted.

    Raises:
        Refusal: 404, there is no such job or step; 409, the job waits for no such decision.
    """
    tenant_id = (await known_job(state, job_id)).tenant_id
    decision = await first_decision(state, tenant_id, "jobs")
    if decision is None:
        command = await _command(state, tenant_id, job_id, wanted)
        decision = await decided(state, tenant_id, job_id, command, "jobs")
    return await commanded(state, job_id, decision)


async def _command(
    state: AppState, tenant_id: str, job_id: str, wanted: StepsRequest
) -> SettleSteps:
    """Return what the dispatcher is asked; refuse what the job and its steps rule out now."""
    home = state.home(tenant_id)
    await state.read_barrier(("jobs", home), ("dispatcher.checkpoints.changelog", home))
    job = await known_job(state, job_id)
    _require_diverged(job)
    await _require_known(state, job, (*wanted.keep, *wanted.drop))
    ids = (tuple(wanted.keep), tuple(wanted.drop))
    return SettleSteps(job.run_id or "", *ids, wanted.note, state.principal.id)


def _require_diverged(job: Job) -> None:
    if job.diverged is None:
        raise Refusal(
            409,
            "not-diverged",
            f"job {job.job_id} is {job.status} and waits for no decision about its steps: only a "
            "job whose code asked for other steps does",
        )


async def _require_known(state: AppState, job: Job, ids: tuple[str, ...]) -> None:
    found = await state.query(lambda db: steps_of(db, job))
    names = {step.name for step in found}
    for id_ in ids:
        if id_ not in names:
            its_job = get("jobs", job.job_id)
            raise unknown("step", id_, f"{its_job} lists them", its_job)
