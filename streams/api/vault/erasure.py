"""Erases a tenant: writes a permanent mark, then deletes the tenant's keys and secrets.

A process that reads the mark refuses all data keys of the tenant that follow it on the topic. So
once the read model shows the mark, it shows every key that can have sealed a body, and those keys
are deleted.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import partial

import orjson
import structlog

from streams.api.artifacts.sweep import remove_of
from streams.api.operator_state import AppState
from streams.api.rows.table import Row
from streams.api.tenants import table as tenants
from streams.artifacts.reference import path_of_tenant
from streams.artifacts.store import StoreUnavailable
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.tenants.settings import TenantSettings

log = structlog.get_logger(__name__)

_SEGMENT_SECONDS = 1.1
"""Just over `segment.ms` of `tenants`. Kafka compacts only closed segments, and closes one when a
record arrives after that time: the second mark is that record."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """Body of the mark; `at` is in milliseconds, the counts are of all records deleted so far."""

    note: str
    by: str
    at: int
    data_keys: int = 0
    sources: int = 0
    endpoints: int = 0


async def erase(state: AppState, tenant_id: str, note: str) -> Erasure:
    """Erase a known tenant; a repeated call deletes what is left and keeps the first note.

    Raises:
        Refusal: 503, the read model is late: call again.
        KafkaUnavailable: a record was not acknowledged: call again.
    """
    async with state.tenant_writes:
        erasure = await _marked(state, tenant_id) or Erasure(note, state.principal.id, wall_ms())
        await _mark(state, tenant_id, erasure)
        await _forget_settings(state, tenant_id)
        gone = Counter(kind for of, kind, _ in await destroy_erased(state) if of == tenant_id)
        await asyncio.sleep(_SEGMENT_SECONDS)
        erasure = replace(
            erasure,
            data_keys=erasure.data_keys + gone["data_key"],
            sources=erasure.sources + gone["source"],
            endpoints=erasure.endpoints + gone["endpoint"],
        )
        await _mark(state, tenant_id, erasure)
    await _remove_artifacts(state, tenant_id)  # last: the store may hang, and no key waits for it
    log.warning("tenant erased", tenant_id=tenant_id, data_keys=erasure.data_keys)
    return erasure


async def destroy_erased(state: AppState) -> list[Row]:
    """Delete what is left of all erased tenants; return the keys of the deleted records.

    Raises:
        Refusal: 503, the read model is late.
        KafkaUnavailable: a deletion was not acknowledged.
    """
    left: list[Row] = await state.query(tenants.undestroyed)
    await asyncio.gather(*(state.set_tenant(key, None) for key in left))
    for key in left:
        await state.wait_until(("tenants", key), partial(_is_gone, key=key))
    return left


def _is_gone(connection: sqlite3.Connection, key: Row) -> bool:
    return tenants.setting(connection, *key) is None


async def _marked(state: AppState, tenant_id: str) -> Erasure | None:
    record = await state.query(lambda db: tenants.erasure(db, tenant_id))
    return None if record is None else Erasure(**orjson.loads(record.body))


async def _mark(state: AppState, tenant_id: str, erasure: Erasure) -> None:
    body = orjson.dumps(asdict(erasure)).decode()
    record = TenantRecord(tenant_id, "erasure", "", True, body, updated_at=wall_ms())
    entry = state.entry(tenant_id, tenant_id, after=record, note=erasure.note)
    await state.set_tenant(_mark_key(tenant_id), record, entry=entry)

    def stands(connection: sqlite3.Connection) -> bool:
        found = tenants.setting(connection, *_mark_key(tenant_id))
        return found is not None and found.updated_at >= record.updated_at

    await state.wait_until(("tenants", _mark_key(tenant_id)), stands)


def _mark_key(tenant_id: str) -> Row:
    return tenant_id, "erasure", ""


async def _remove_artifacts(state: AppState, tenant_id: str) -> None:
    """Remove what its jobs have saved: nothing opens it any more. A sweep removes what is left."""
    if state.artifacts is None:
        return
    try:
        await remove_of(state.artifacts, path_of_tenant(tenant_id))
    except StoreUnavailable as error:
        log.warning("artifacts of an erased tenant stay for now", reason=str(error))


async def _forget_settings(state: AppState, tenant_id: str) -> None:
    """Disable the tenant, and delete its own settings and what is said of its pause."""
    body = TenantSettings().model_dump_json()
    record = TenantRecord(tenant_id, "tenant", "", True, body, updated_at=wall_ms())
    await state.set_tenant((tenant_id, "tenant", ""), record)
    await state.set_tenant((tenant_id, "pause", ""), None)
