"""The refusal of new jobs where too many wait."""

from __future__ import annotations

from streams.api.backlog.table import backlog
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.remedy import get
from streams.limits.backlog import RETRY_SECONDS, Backlog, Depth, QueueCaps

_WHOSE = {"tenant": " of tenant {!r}", "job_type": " of type {!r}", "global": ""}


async def open_backlog(state: AppState) -> Backlog:
    """Return the depths as the read model has them; without `max_queued` it is not asked."""
    if not state.topology.max_queued:
        return Backlog(QueueCaps(()))
    return await state.query(lambda db: backlog(db, state.topology.max_queued))


async def refuse_full(state: AppState, tenant_id: str, type_: str) -> None:
    """Check that one more job may wait.

    Raises:
        Refusal: 429, too many wait already.
    """
    full = (await open_backlog(state)).full(tenant_id, type_)
    if full is not None:
        raise full_refusal(full)


def full_refusal(full: Depth) -> Refusal:
    """Return the 429 of a job that a cap does not let in."""
    whose = _WHOSE[full.line.scope].format(full.line.value)
    all_ = get("backlog")
    detail = (
        f"{full.jobs:,} jobs{whose} wait, and max_queued lets {full.cap:,}: send it again in "
        f"{RETRY_SECONDS} s or later; {all_} shows how many wait"
    )
    limit = {"scope": full.line.scope, "value": full.line.value or None}
    facts = {"limit": limit, "depth": full.jobs, "cap": full.cap}
    return Refusal(429, "backlog-full", detail, remedy=all_, **facts)
