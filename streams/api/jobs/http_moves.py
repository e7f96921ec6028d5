"""Calls that move waiting jobs to another pool, one or many."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Annotated

from aiohttp import web
from pydantic import Field

from streams.api.command_results import run_command
from streams.api.fields import Body, Name, noted
from streams.api.jobs import movable as movable_jobs
from streams.api.jobs import table as jobs
from streams.api.jobs.http import commanded, live_job
from streams.api.jobs.movable import WaitingFilter
from streams.api.operator_state import SUBMITTED_BY, AppState
from streams.api.refusal import invalid
from streams.api.serving.listing import cursor_in
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, Move

routes = web.RouteTableDef()

Note = Annotated[str, noted("must say why it is moved")]


class MoveRequest(Body):
    """Body of `POST /v1/jobs/{id}/move`."""

    pool: Name
    note: Note


class BulkMoveRequest(MoveRequest):
    """Body of `POST /v1/jobs:move`: all waiting jobs of a type, a page at a time."""

    type: Name
    tenant_id: str | None = None
    limit: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    cursor: str | None = None
    dry_run: bool = False


@routes.post("/v1/jobs/{job_id}/move")
async def move_job(request: web.Request) -> web.Response:
    """Move a job to another pool; one that runs moves when it waits again."""
    state, job_id = request.app[STATE], request.match_info["job_id"]
    wanted = await read_body(request, MoveRequest)
    _require_pool(state, wanted.pool)
    job = await live_job(state, job_id)

    def moved(connection: sqlite3.Connection) -> Job | None:
        found = jobs.job(connection, job_id)
        ended = found is None or found.status in TERMINAL
        if found is None or ended or not found.is_same_life(job.incarnation):
            return job
        return found if found.asked_pool == wanted.pool else None

    row = ("jobs", (job_id,))
    found = await run_command(state, job.tenant_id, job_id, _move(wanted), row, moved)
    return await commanded(state, job_id, answered=found is not None)


@routes.post("/v1/jobs:move")
async def move_jobs(request: web.Request) -> web.Response:
    """Move all waiting jobs of a type to another pool; answer once the commands are durable."""
    state, wanted = request.app[STATE], await read_body(request, BulkMoveRequest)
    _require_pool(state, wanted.pool)
    cursor, asked = (
        cursor_in(wanted.cursor),
        WaitingFilter(wanted.type, wanted.pool, wanted.tenant_id),
    )
    found = await state.query(lambda db: movable_jobs.selected(db, asked, wanted.limit, cursor))
    if not wanted.dry_run:
        move = _move(wanted)
        await asyncio.gather(*(state.command(tenant, id_, move) for id_, tenant in found.jobs))
    return web.json_response(
        {
            "dry_run": wanted.dry_run,
            "matched": found.matched,
            "movable": len(found.jobs),
            "moved": 0 if wanted.dry_run else len(found.jobs),
            "next_cursor": None if found.next is None else str(found.next),
        }
    )


def _move(wanted: MoveRequest) -> Move:
    return Move(wanted.pool, wanted.note, SUBMITTED_BY)


def _require_pool(state: AppState, pool: str) -> None:
    pools = state.topology.pools
    if pool not in pools:
        known = ", ".join(pools)
        raise invalid("pool", f"{pool!r} is not declared in the topology: choose one of {known}")
