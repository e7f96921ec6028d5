"""What every change of a record on `tenants` does: locks, checks, writes, and waits to be shown."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from streams.api.condition import Condition
from streams.api.operator_state import (
    SETTINGS_WRITER,
    AppState,
    not_shown,
    replacing,
    tenant_record,
)
from streams.api.refusal import Refusal
from streams.api.rows.table import Row
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import refuse_erased
from streams.api.tenants.tags import newest, present_tag, tag_of
from streams.errors import KafkaUnavailable
from streams.http.moments import rfc3339
from streams.kafka.fenced_write import Unsettled
from streams.serde.records import AuditEntry, SigningKey, TenantRecord
from streams.tenants.source_keys import MOST_KEYS, rotated

_MOST_TRIES = 5
_SHOWN = -1
"""An offset before all that the read model has folded in."""


@asynccontextmanager
async def changing(state: AppState, tenant_id: str) -> AsyncIterator[None]:
    """Hold the lock from the read to the write. Otherwise one of two concurrent rotations would be
    lost, and a write that read before an erasure would bring back what the erasure destroyed.

    Raises:
        Refusal: 409, the tenant was erased; 412, the call has a condition that does not hold.
    """
    async with state.tenant_writes:
        await refuse_erased(state, tenant_id)
        if state.condition is not None:  # before anything is made that the record needs
            await state.read_barrier(("tenants", state.home(tenant_id)))
            state.condition.require(await present_tag(state, state.condition.key))
        yield


async def written(state: AppState, record: TenantRecord, *, late: bool = False) -> TenantRecord:
    """Write a record; return it, or the later one of another call, as the read model shows it.

    With `late`, return the record even if the read model does not show it in time: the answer
    holds a secret that no later one would repeat.

    Raises:
        Refusal: 412, the condition of the call does not hold; 503, the read model is late: send
            the call again.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    key = (record.tenant_id, record.kind, record.id)
    before = await newest(state, key)
    record = replacing(before, record)
    target = record.id or record.tenant_id
    entry = state.entry(target, record.tenant_id, before=before, after=record)

    def shown(connection: sqlite3.Connection) -> TenantRecord | None:
        found = tenants.setting(connection, *key)
        return found if found is not None and found.updated_at >= record.updated_at else None

    state.unshown[key] = await _sent(state, key, record, entry), record
    found = await state.wait_for(("tenants", key), shown)
    if found is None and not late:
        raise not_shown()
    present = record if found is None else found
    state.new_tags[key] = tag_of(present)
    return present


async def standing_endpoint(state: AppState, tenant_id: str, name: str) -> TenantRecord | None:
    """Return an endpoint's newest record, unless it is removed."""
    record = await newest(state, (tenant_id, "endpoint", name))
    return None if record is None or record.disabled else record


async def removed(state: AppState, record: TenantRecord) -> None:
    """Delete a record, and return once the read model no longer shows it.

    Raises:
        Refusal: 412, the condition of the call does not hold; 503, the read model is late: send
            the call again.
    """
    key = (record.tenant_id, record.kind, record.id)
    gone = replacing(record, replace(record, disabled=True, secrets=(), keys=()))
    entry = state.entry(record.id, record.tenant_id, before=record)
    state.unshown[key] = await _sent(state, key, None, entry), gone
    await state.wait_until(("tenants", key), lambda db: tenants.setting(db, *key) is None)


async def _sent(
    state: AppState, key: Row, record: TenantRecord | None, entry: AuditEntry | None
) -> int:
    """Write a record, or delete it, under the condition of the call; return its offset."""
    if state.condition is None or state.condition.key != key:
        return await state.set_tenant(key, record, entry=entry)
    return await _sent_if(state, state.condition, record, entry)


async def _sent_if(
    state: AppState, condition: Condition, record: TenantRecord | None, entry: AuditEntry | None
) -> int:
    """Write a record if the condition still holds, whichever operator writes meanwhile.

    After a commit without an answer, the record itself shows whether it was written.
    """
    key, home = condition.key, state.home(condition.key[0])
    for tried in range(_MOST_TRIES):
        write = await state.fenced.open()
        await state.read_barrier(("tenants", home))
        present, wanted = await present_tag(state, key), tag_of(record)
        if tried and present == wanted:
            return _SHOWN
        condition.require(present)
        told = await state.chained(SETTINGS_WRITER, entry)
        with suppress(Unsettled):
            return (await write.commit(tenant_record(key, record, home), *told))[0]
    raise KafkaUnavailable("other writers came before this one again and again")


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
