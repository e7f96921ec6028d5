"""Removes artifacts that nobody needs: their job was purged after its retention, or erased.

A job that is kept may have a large value of a purged one, for which it waited or which it repeats.
It needs the other's artifacts in each of its runs, so they stay as long as it does.
"""

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
from streams.api.steps import table as steps
from streams.api.tenants import table as tenants
from streams.artifacts.store import ArtifactStore, Entry, NotPermitted, StoreUnavailable
from streams.process.wall_clock import wall_ms

log = structlog.get_logger(__name__)

EVERY_SECONDS = 3_600.0
_FIRST_SECONDS = 300.0
"""A process that never lives for an hour sweeps, too."""
_YOUNG_MS = 86_400_000
"""So young, an artifact stays: its job may not be shown yet, and clocks may differ."""
_AT_ONCE = 500
_MOST_REFUSED = 20
"""So many in a row that cannot be removed show that the store takes nothing now; those that may not
be removed do not count, because all files of one job may be another user's."""
_PAGE_SECONDS = 900.0
"""All that a tenant has in a bucket is listed before its first page."""


async def sweep_for_ever(state: AppState, store: ArtifactStore) -> None:
    """Sweep each hour, once the read model has all jobs."""
    while True:
        await asyncio.sleep(min(_FIRST_SECONDS, EVERY_SECONDS))
        if state.ready():
            await _sweep_and_say(state, store)
            await asyncio.sleep(EVERY_SECONDS)


async def _sweep_and_say(state: AppState, store: ArtifactStore) -> None:
    try:
        removed = await sweep(state, store, wall_ms())
    except StoreUnavailable as error:
        log.warning("artifacts of former jobs stay for now", reason=str(error))
    except Exception:  # the read model may be rebuilt just now
        log.exception("artifacts of former jobs stay for now")
    else:
        if removed:
            log.info("artifacts of former jobs removed", number=removed)


async def sweep(state: AppState, store: ArtifactStore, now: int) -> int:
    """Remove what no job needs any more; how many there were.

    Raises:
        StoreUnavailable: the store does not answer, so the next sweep removes the others; or it
            refuses to remove some, and all others are removed.
    """
    entries, removed, before = store.entries(), 0, now - _YOUNG_MS
    refusal: StoreUnavailable | None = None
    while page := await asked(store, lambda _: list(islice(entries, _AT_ONCE)), _PAGE_SECONDS):
        gone = await state.query(partial(_left, entries=page, before=before))
        if not state.ready():
            return removed  # it begins anew, so it may not have all jobs
        number, refused = await asked(store, partial(_remove, entries=gone), _PAGE_SECONDS)
        removed, refusal = removed + number, refused or refusal
    if refusal is not None:
        raise refusal
    return removed


async def remove_of(store: ArtifactStore, folder: str) -> None:
    """Remove everything in a folder.

    Raises:
        StoreUnavailable: the store does not answer, or refuses to remove something.
    """
    _, refusal = await asked(store, lambda store: _remove(store, list(store.entries(folder))))
    if refusal is not None:
        raise refusal


def _left(connection: sqlite3.Connection, entries: list[Entry], before: int) -> list[Entry]:
    return [entry for entry in entries if _is_left(connection, entry, before)]


def _is_left(connection: sqlite3.Connection, entry: Entry, before: int) -> bool:
    parts = entry.path.split("/")
    if len(parts) != 3 or not entry.path.isascii():
        return False  # it is not ours
    tenant_id, job_id, _ = map(unquote, parts)
    if tenants.erasure(connection, tenant_id) is not None:
        return True
    if entry.written_at >= before:
        return False
    return entry.is_unfinished or not _is_needed(connection, tenant_id, job_id)


def _is_needed(connection: sqlite3.Connection, tenant_id: str, job_id: str) -> bool:
    job = jobs.job(connection, job_id)
    is_there = job is not None and job.tenant_id == tenant_id
    return is_there or steps.any_has_artifact_of(connection, tenant_id, job_id)


def _remove(store: ArtifactStore, entries: list[Entry]) -> tuple[int, StoreUnavailable | None]:
    """Remove what the store lets go; how many, and why others stay, if some do.

    One that can never be removed, such as a file of another user, must not keep all behind it.

    Raises:
        StoreUnavailable: it lets go nothing.
    """
    removed, in_a_row, refusal = 0, 0, None
    for entry in entries:
        try:
            store.remove(entry.path)
        except StoreUnavailable as error:
            refusal, in_a_row = error, in_a_row + (not isinstance(error, NotPermitted))
            if in_a_row == _MOST_REFUSED:
                raise
        else:
            removed, in_a_row = removed + 1, 0
    return removed, refusal
