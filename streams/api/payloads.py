"""Fetches and opens a raw body."""

from __future__ import annotations

import asyncio
import sqlite3

from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.tenants import table as tenants
from streams.errors import PermanentError, TransientError, VaultError
from streams.serde.records import PayloadRef, TenantRecord
from streams.vault.data_key import DataKey


async def open_body(state: AppState, tenant_id: str, event_id: str, ref: PayloadRef) -> bytes:
    """Return the plain body, exactly as its vendor signed it.

    Raises:
        Refusal: 410, its tenant was erased, or it is past its retention; 503, it cannot be read
            at present.
    """
    key = await _key(state, tenant_id, ref.key_id)
    try:
        chunks = await asyncio.wrap_future(state.payloads.fetch(ref))
        return await asyncio.to_thread(key.open, event_id, chunks, ref.size)
    except PermanentError as error:
        raise Refusal(410, "payload-gone", str(error)) from None
    except TransientError as error:
        raise Refusal(503, "payload-unreadable", str(error)) from error
    except VaultError as error:
        raise Refusal(503, "payload-unreadable", str(error)) from None


async def refuse_erased_body(state: AppState, tenant_id: str) -> None:
    """Refuse with 410 if the tenant was erased, because no key opens its bodies any more."""
    if await state.query(lambda db: tenants.erasure(db, tenant_id)):
        raise _erased(tenant_id)


async def _key(state: AppState, tenant_id: str, key_id: str) -> DataKey:
    place = (tenant_id, "data_key", key_id)

    def known(connection: sqlite3.Connection) -> TenantRecord | bool | None:
        if tenants.erasure(connection, tenant_id):
            return False
        return tenants.setting(connection, *place)

    # The read model may show a body a moment before its key, which is on another topic.
    record = await state.wait_for(("tenants", place), known)
    if isinstance(record, TenantRecord):
        return DataKey(state.vault, record)
    if record is False:
        raise _erased(tenant_id)
    raise Refusal(
        503,
        "payload-unreadable",
        f"data key {key_id} of tenant {tenant_id} is not known: see docs/vault.md",
    )


def _erased(tenant_id: str) -> Refusal:
    gone = "the keys of its bodies are destroyed"
    return Refusal(410, "payload-erased", f"tenant {tenant_id} was erased: {gone}")
