"""Seals every secret on `tenants` again, under the vault's first key.

This is the last step of a key rotation but one: afterwards no record needs an older key. Secrets
that are already sealed under the first key stay as they are, so a repetition is safe.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field
from functools import partial

import orjson

from streams.api.operator_state import AppState, replacing, tenant_record
from streams.api.refusal import invalid
from streams.api.rows.cursor import Cursor
from streams.api.rows.table import Row
from streams.api.tenants import table as tenants
from streams.api.vault.erasure import destroy_erased
from streams.errors import VaultError
from streams.serde.records import TenantRecord
from streams.tenants.resealing import resealed

_PAGE = 100


@dataclass(slots=True)
class Rewrapped:
    """How many records were sealed again under `key_id`, and which ones no known key opens."""

    key_id: str
    data_keys: int = 0
    sources: int = 0
    endpoints: int = 0
    unchanged: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def looked_at(self) -> int:
        changed = self.data_keys + self.sources + self.endpoints
        return changed + self.unchanged + len(self.unreadable)

    def count(self, before: TenantRecord, after: TenantRecord | None) -> None:
        """Count one record; `after` is None if no key opened it."""
        if after is None:
            self.unreadable.append("/".join((before.tenant_id, before.kind, before.id)))
        elif after == before:
            self.unchanged += 1
        elif after.kind == "data_key":
            self.data_keys += 1
        elif after.kind == "endpoint":
            self.endpoints += 1
        else:
            self.sources += 1


async def rewrap(
    state: AppState, cursor: Cursor | None = None, most: int | None = None
) -> tuple[Rewrapped, Cursor | None]:
    """Rewrap the secrets behind a cursor, page by page; return where the rest begins, if any.

    It ends after `most` records, or without that, after all.

    Raises:
        Refusal: 503, the read model is late: call again.
        KafkaUnavailable: a record was not acknowledged: call again.
    """
    done, last = Rewrapped(state.vault.key_id), _behind(cursor)
    while most is None or done.looked_at < most:
        limit = _PAGE if most is None else min(_PAGE, most - done.looked_at)
        async with state.tenant_writes:
            state.drop_shown()
            page = await state.query(partial(tenants.sealed_settings, after=last, limit=limit))
            if not page:
                return done, None
            await _rewrap(state, [state.newest(_key(each), each) or each for each in page], done)
            # Another operator may have erased a tenant meanwhile: delete what was written back.
            await destroy_erased(state)
        last = _key(page[-1])
    return done, Cursor(0, "/".join(last))


def _behind(cursor: Cursor | None) -> Row:
    """Return the key of the last record before a cursor.

    Raises:
        Refusal: 422, the cursor is of another list.
    """
    parts = ("", "", "") if cursor is None else tuple(cursor.id.split("/", 2))
    if len(parts) != len(("tenant_id", "kind", "id")):
        raise invalid("cursor", "must be the next_cursor of an earlier answer")
    return parts


async def _rewrap(state: AppState, page: list[TenantRecord], done: Rewrapped) -> None:
    after = await asyncio.to_thread(lambda: [_again(state, record) for record in page])
    for old, new in zip(page, after, strict=True):
        done.count(old, new)
    pairs = zip(page, after, strict=True)
    changed = [new for old, new in pairs if new is not None and new != old]
    sent = (tenant_record(_key(each), each, state.home(each.tenant_id)) for each in changed)
    counts = orjson.dumps({"key_id": done.key_id, "records": len(changed)}).decode()
    await state.audited(state.entry("vault", after=counts) if changed else None, *sent)
    for record in changed:
        await state.wait_until(("tenants", _key(record)), partial(_stands, record=record))


def _again(state: AppState, record: TenantRecord) -> TenantRecord | None:
    try:
        again = resealed(state.vault, record)
    except VaultError:
        return None
    return record if again == record else replacing(record, again)


def _stands(connection: sqlite3.Connection, record: TenantRecord) -> bool:
    found = tenants.setting(connection, *_key(record))
    return found is None or found.updated_at >= record.updated_at


def _key(record: TenantRecord) -> Row:
    return record.tenant_id, record.kind, record.id
