"""Moves waiting jobs to another pool, one or many."""

from __future__ import annotations

import asyncio

from streams.api.decisions import decided, first_decision
from streams.api.jobs import movable as movable_jobs
from streams.api.jobs.known import commanded, known_job, require_live
from streams.api.jobs.movable import WaitingFilter
from streams.api.jobs.move_request import BulkMoveRequest, MoveRequest
from streams.api.operator_state import AppState
from streams.api.refusal import invalid
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.serde.records import Move


async def move(state: AppState, job_id: str, wanted: MoveRequest) -> Json:
    """Move a job; one that runs moves when it waits again.

    Raises:
        Refusal: 404; 409, it has ended, or the dispatcher refuses; 422, there is no such pool.
    """
    job = await known_job(state, job_id)
    decision = await first_decision(state, job.tenant_id, "jobs")
    if decision is None:
        require_pool(state, wanted.pool)
        require_live(job)
        command = Move(wanted.pool, wanted.note, state.principal.id)
        decision = await decided(state, job.tenant_id, job_id, command, "jobs")
    return await commanded(state, job_id, decision)


async def move_page(state: AppState, wanted: BulkMoveRequest, cursor: Cursor | None) -> Json:
    """Move a page of the waiting jobs of a type; return once the commands are durable.

    Raises:
        Refusal: 422, there is no such pool.
    """
    require_pool(state, wanted.pool)
    asked = WaitingFilter(wanted.type, wanted.pool, wanted.tenant_id)
    found = await state.query(lambda db: movable_jobs.selected(db, asked, wanted.limit, cursor))
    if not wanted.dry_run:
        command = Move(wanted.pool, wanted.note, state.principal.id)
        await asyncio.gather(*(state.command(tenant, id_, command) for id_, tenant in found.jobs))
    return {
        "dry_run": wanted.dry_run,
        **found.matched.json(),
        "movable": len(found.jobs),
        "moved": 0 if wanted.dry_run else len(found.jobs),
        "next_cursor": None if found.next is None else str(found.next),
    }


def require_pool(state: AppState, pool: str) -> None:
    """Refuse with 422 a pool that the topology does not declare."""
    pools = state.topology.pools
    if pool not in pools:
        known = ", ".join(pools)
        raise invalid("pool", f"{pool!r} is not declared in the topology: choose one of {known}")
