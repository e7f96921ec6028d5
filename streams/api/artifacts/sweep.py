"""Removes artifacts whose job is gone: it was purged after its retention, or its tenant erased."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from itertools import islice
from urllib.parse import unquote

import structlog

from streams.api.artifacts.store_calls import asked
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState
from streams.api.tenants import table as tenants
from streams.artifacts.store import ArtifactStore, Entry, StoreUnavailable
from streams.process.wall_clock import wall_ms

log = structlog.get_logger(__name__)

EVERY_SECONDS = 3_600.0
_YOUNG_MS = 86_400_000
"""So young, an artifact stays: its job may not be shown yet, and clocks may differ."""
_AT_ONCE = 500
_PAGE_SECONDS = 900.0
"""A bucket is listed as a whole before its first page."""


async def sweep_for_ever(state: AppState, store: ArtifactStore) -> None:
    """Sweep each hour, once the read model has all jobs."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        if not state.ready():
            continue
        try:
            removed = await sweep(state, store, wall_ms())
        except StoreUnavailable as error:
            log.warning("artifacts of former jobs stay for now", reason=str(error))
            continue
        if removed:
            log.info("artifacts of former jobs removed", number=removed)


async def sweep(state: AppState, store: ArtifactStore, now: int) -> int:
    """Remove what belongs to no job any more; how many there were.

    Raises:
        StoreUnavailable: the store does not answer; the next sweep removes the others.
    """
    entries, removed = store.entries(), 0
    while page := await asked(store, lambda _: list(islice(entries, _AT_ONCE)), _PAGE_SECONDS):
        old = [each for each in page if each.written_at < now - _YOUNG_MS]
        gone = await state.query(partial(_without_job, entries=old))
        if not state.ready():
            return removed  # it begins anew, so it may not have all jobs
        removed += await asked(store, partial(_remove, entries=gone), _PAGE_SECONDS)
    return removed


async def remove_of(store: ArtifactStore, folder: str) -> None:
    """Remove everything in a folder.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    await asked(store, lambda store: _remove(store, list(store.entries(folder))))


def _without_job(connection: sqlite3.Connection, entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if _is_left(connection, *entry.path.split("/"))]


def _is_left(connection: sqlite3.Connection, *parts: str) -> bool:
    if len(parts) != 3:
        return False  # it is not ours
    tenant_id, job_id, _ = map(unquote, parts)
    job = jobs.job(connection, job_id)
    is_there = job is not None and job.tenant_id == tenant_id
    return not is_there or tenants.erasure(connection, tenant_id) is not None


def _remove(store: ArtifactStore, entries: list[Entry]) -> int:
    for entry in entries:
        store.remove(entry.path)
    return len(entries)
