"""Settlements: a person records the outcome of an effect that no run could record."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Literal, Self

from aiohttp import web
from pydantic import model_validator

from streams.api.command_results import run_command
from streams.api.effects.table import TABLE, effect, effect_alone, shared_effect
from streams.api.fields import Body, Writable, noted, stored_json
from streams.api.jobs.known import commanded, known_job, shown_job
from streams.api.operator_state import SUBMITTED_BY, AppState
from streams.api.refusal import Refusal, unknown
from streams.api.rows.table import find
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import known_tenant
from streams.serde.codec import LEDGER_ENTRY
from streams.serde.effect_scopes import is_shared, once_per
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
    job = await _current(state, job_id)
    entry = await _known(state, job, action)
    command = _command(entry, wanted)
    if _is_settled(entry, command):
        return web.json_response(await shown_job(state, job_id), status=202)
    if not is_shared(entry.scope):
        _require_at_rest(entry, job)
    found = await _settled(state, job_id, entry, command)
    shown = await commanded(state, job_id, answered=found is not None)
    return web.json_response(shown, status=202)


@routes.post("/v1/tenants/{tenant_id}/effects/{action:(?s:.+)}/settle")
async def settle_shared(request: web.Request) -> web.Response:
    """Settle an effect that counts beyond its job; the jobs that wait for it go on."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    wanted, action = await read_body(request, SettleRequest), request.match_info["action"]
    await known_tenant(state, tenant_id)
    await state.read_barrier(("ledger", state.home(tenant_id)))
    entry = await state.query(lambda db: shared_effect(db, tenant_id, action))
    if entry is None:
        raise unknown("effect", action, "GET /v1/effects lists them")
    command = _command(entry, wanted)
    if _is_settled(entry, command):
        return web.json_response(effect_alone(entry) | {"answered": True}, status=202)
    found = await _settled(state, entry.job_id, entry, command)
    shown = effect_alone(found or entry) | {"answered": found is not None}
    return web.json_response(shown, status=202)


def _command(entry: LedgerEntry, wanted: SettleRequest) -> Settle:
    result = stored_json(wanted.result, "result", MAX_RESULT_BYTES)
    done = wanted.status == DONE
    return Settle(
        entry.action,
        DONE if done else FAILED,
        result if done else None,
        wanted.note,
        SUBMITTED_BY,
        once_per(entry.scope),
    )


def _is_settled(entry: LedgerEntry, command: Settle) -> bool:
    """Return whether somebody said the same before.

    Raises:
        Refusal: 409, the outcome is known.
    """
    same = (entry.status, entry.result) == (command.status, command.result)
    if entry.settled_by and same:
        return True
    if entry.status not in UNSETTLED:
        settled = f"effect {entry.action} is {entry.status}: its outcome is already known"
        raise Refusal(409, "already-settled", settled)
    return False


async def _settled(
    state: AppState, job_id: str, entry: LedgerEntry, command: Settle
) -> LedgerEntry | None:
    """Send a settlement, and return the effect as it is then; None if the read model is late."""
    key = {"tenant_id": entry.tenant_id, "scope": entry.scope, "action": entry.action}

    def settled(connection: sqlite3.Connection) -> LedgerEntry | None:
        found = find(connection, LEDGER_ENTRY, TABLE.name, **key)
        return None if found == entry else found

    row = (TABLE.name, tuple(key.values()))
    return await run_command(state, entry.tenant_id, job_id, command, row, settled)


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


def _require_at_rest(entry: LedgerEntry, job: Job) -> None:
    """Check that no run of the job may still record the outcome of its effect.

    The dispatcher checks whether its call may still run, and all of this for a shared effect.

    Raises:
        Refusal: 409, a run may still record it.
    """
    if job.status not in AT_REST:
        raise Refusal(
            409,
            "not-in-review",
            f"effect {entry.action} is {entry.status} and its job "
            f"{job.status}: settle it when that is in review or has ended",
        )
