"""Settlements: a person records the outcome of an effect that no run could record."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Literal, Self

from aiohttp import web
from pydantic import model_validator

from streams.operator.command_results import run_command
from streams.operator.http.app_state import STATE, SUBMITTED_BY, AppState
from streams.operator.http.fields import Body, Writable, noted, stored_json
from streams.operator.http.jobs import commanded, known_job, shown_job
from streams.operator.http.refusal import Refusal, unknown
from streams.operator.http.request_body import read_body
from streams.operator.resources.effects import effect
from streams.serde.effect_states import DONE, FAILED, UNSETTLED
from streams.serde.job_states import AT_REST
from streams.serde.records import Job, LedgerEntry, Settle

routes = web.RouteTableDef()

MAX_RESULT_BYTES = 256 * 1024
"""The same limit applies to a result that a run records."""


class SettleRequest(Body):
    """Body of a settlement; the handler gets `result`, any JSON, as the result of its effect."""

    status: Literal["done", "not_done"]
    result: Writable = None
    note: Annotated[str, noted("must say how the outcome was found out")]

    @model_validator(mode="after")
    def _result_of_what_is_done(self) -> Self:
        if self.status == "not_done" and self.result is not None:
            raise ValueError("an effect that was not done has no result")
        return self


@routes.post("/v1/jobs/{job_id}/effects/{action:(?s:.+)}/settle")
async def settle(request: web.Request) -> web.Response:
    """Settle one effect of a job in review, which continues once all are settled, or of one that
    has ended, for its replay."""
    state, job_id = request.app[STATE], request.match_info["job_id"]
    wanted, action = await read_body(request, SettleRequest), request.match_info["action"]
    result = stored_json(wanted.result, "result", MAX_RESULT_BYTES)
    job = await _current(state, job_id)
    done = wanted.status == DONE
    command = Settle(
        action, DONE if done else FAILED, result if done else None, wanted.note, SUBMITTED_BY
    )
    entry = await _known(state, job, action)
    if entry.settled_by and (entry.status, entry.result) == (command.status, command.result):
        return web.json_response(await shown_job(state, job_id), status=202)
    _require_unsettled(entry, job)

    def settled(connection: sqlite3.Connection) -> bool | None:
        found = effect(connection, job, action)
        return None if found in (None, entry) else True

    row = ("effects", (job.tenant_id, job.scope, action))
    found = await run_command(state, job.tenant_id, job_id, command, row, settled)
    return await commanded(state, job_id, answered=found is not None)


async def _current(state: AppState, job_id: str) -> Job:
    """Return the job, once the read model shows it and its effects as they are now."""
    home = state.home((await known_job(state, job_id)).tenant_id)
    await state.read_barrier(("jobs", home), ("ledger", home))
    return await known_job(state, job_id)


async def _known(state: AppState, job: Job, action: str) -> LedgerEntry:
    """Return the effect as the ledger has it; refuse with 404 if there is none."""
    entry = await state.query(lambda db: effect(db, job, action))
    if entry is None:
        raise unknown("effect", action, f"GET /v1/jobs/{job.job_id} lists them")
    return entry


def _require_unsettled(entry: LedgerEntry, job: Job) -> None:
    """Check that an effect can be settled; the dispatcher checks whether its call may still run.

    Raises:
        Refusal: 409, its outcome is known, or a run may still record it.
    """
    action = entry.action
    if entry.status not in UNSETTLED:
        settled = f"effect {action} is {entry.status}: its outcome is already known"
        raise Refusal(409, "already-settled", settled)
    if job.status not in AT_REST:
        raise Refusal(
            409,
            "not-in-review",
            f"effect {action} is {entry.status} and its job "
            f"{job.status}: settle it when that is in review or has ended",
        )
