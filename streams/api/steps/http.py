"""Decisions about the finished steps of a job whose code diverged from them."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Self

from aiohttp import web
from pydantic import Field, model_validator

from streams.api.command_results import run_command
from streams.api.fields import Body, noted
from streams.api.jobs import table as jobs
from streams.api.jobs.known import commanded, known_job
from streams.api.operator_state import SUBMITTED_BY, AppState
from streams.api.refusal import Refusal, unknown
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.steps.table import steps_of
from streams.serde.records import Job, SettleSteps

routes = web.RouteTableDef()


class StepsRequest(Body):
    """Body of a decision; without `keep` and `drop` the job runs again as it is."""

    keep: list[str] = Field(default_factory=list)
    drop: list[str] = Field(default_factory=list)
    note: Annotated[str, noted("must say why")]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({*self.keep, *self.drop}) < len(self.keep) + len(self.drop):
            raise ValueError("name each step once, in keep or in drop")
        return self


@routes.post("/v1/jobs/{job_id}/steps")
async def settle_steps(request: web.Request) -> web.Response:
    """Let a job go on whose code diverged from its finished steps.

    Those in `keep` stay and need not be asked for any more; those in `drop` are deleted.
    """
    state, job_id = request.app[STATE], request.match_info["job_id"]
    wanted = await read_body(request, StepsRequest)
    home = state.home((await known_job(state, job_id)).tenant_id)
    await state.read_barrier(("jobs", home), ("dispatcher.checkpoints.changelog", home))
    job = await known_job(state, job_id)
    _require_diverged(job)
    await _require_known(state, job, (*wanted.keep, *wanted.drop))
    run_id = job.run_id or ""
    ids = (tuple(wanted.keep), tuple(wanted.drop))
    command = SettleSteps(run_id, *ids, wanted.note, SUBMITTED_BY)

    def decided(connection: sqlite3.Connection) -> bool | None:
        found = jobs.job(connection, job_id)
        same = found is not None and (found.run_id, found.diverged) == (run_id, job.diverged)
        return None if same else True

    found = await run_command(state, job.tenant_id, job_id, command, ("jobs", (job_id,)), decided)
    shown = await commanded(state, job_id, answered=found is not None)
    return web.json_response(shown, status=202)


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
            raise unknown("step", id_, f"GET /v1/jobs/{job.job_id} lists them")
