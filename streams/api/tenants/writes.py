"""What every change of a record on `tenants` does: locks, checks, writes, and waits to be shown."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from streams.api.operator_state import AppState, not_shown, replacing
from streams.api.refusal import Refusal
from streams.api.rows.table import Row
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import refuse_erased
from streams.http.moments import rfc3339
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.source_keys import MOST_KEYS, rotated


@asynccontextmanager
async def changing(state: AppState, tenant_id: str) -> AsyncIterator[None]:
    """Hold the lock from the read to the write. Otherwise one of two concurrent rotations would be
    lost, and a write that read before an erasure would bring back what the erasure destroyed.

    Raises:
        Refusal: 409, the tenant was erased.
    """
    async with state.tenant_writes:
        await refuse_erased(state, tenant_id)
        yield


async def written(state: AppState, record: TenantRecord, *, late: bool = False) -> TenantRecord:
    """Write a record; return it, or the later one of another call, as the read model shows it.

    With `late`, return the record even if the read model does not show it in time: the answer
    holds a secret that no later one would repeat.

    Raises:
        Refusal: 503, the read model is late: send the call again.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    key = (record.tenant_id, record.kind, record.id)
    record = replacing(await newest(state, key), record)

    def shown(connection: sqlite3.Connection) -> TenantRecord | None:
        found = tenants.setting(connection, *key)
        return found if found is not None and found.updated_at >= record.updated_at else None

    state.unshown[key] = await state.set_tenant(key, record), record
    found = await state.wait_for(("tenants", key), shown)
    if found is None and late:
        return record
    if found is None:
        raise not_shown()
    return found


async def newest(state: AppState, key: Row) -> TenantRecord | None:
    """Return the newest record under a key: what this process wrote, or what the read model has."""
    state.drop_shown()
    return state.newest(key, await state.query(lambda db: tenants.setting(db, *key)))


async def standing_endpoint(state: AppState, tenant_id: str, name: str) -> TenantRecord | None:
    """Return an endpoint's newest record, unless it is removed."""
    record = await newest(state, (tenant_id, "endpoint", name))
    return None if record is None or record.disabled else record


async def removed(state: AppState, record: TenantRecord) -> None:
    """Delete a record, and return once the read model no longer shows it.

    Raises:
        Refusal: 503, the read model is late: send the call again.
    """
    key = (record.tenant_id, record.kind, record.id)
    gone = replacing(record, replace(record, disabled=True, secrets=(), keys=()))
    state.unshown[key] = await state.set_tenant(key, None), gone
    await state.wait_until(("tenants", key), lambda db: tenants.setting(db, *key) is None)


def with_newest(
    before: Sequence[SigningKey], key: SigningKey, overlap_seconds: float, now: int
) -> tuple[SigningKey, ...]:
    """Return the keys after a rotation at `now` (milliseconds).

    Raises:
        Refusal: 409, too many are in use.
    """
    keys = rotated(before, key, now + round(overlap_seconds * 1000), now)
    if len(keys) > MOST_KEYS:
        until = rfc3339(min(each.until for each in keys if each.until is not None))
        raise Refusal(
            409,
            "too-many-secrets",
            f"{MOST_KEYS} secrets are in use already: the next one ends at {until}; "
            "rotate after that, or set a new secret to end all at once",
        )
    return keys
