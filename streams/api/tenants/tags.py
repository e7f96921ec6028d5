"""Tags of the records on `tenants`: each names one state of one record."""

from __future__ import annotations

import hashlib

from streams.api.operator_state import AppState
from streams.api.rows.table import Row
from streams.api.tenants import table as tenants
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord

_LENGTH = 32


def tag_of(record: TenantRecord | None) -> str | None:
    """Return the tag of a record; None if it does not exist, as an endpoint that is removed."""
    if record is None or (record.kind == "endpoint" and record.disabled):
        return None
    return hashlib.sha256(TENANT.encode(record)).hexdigest()[:_LENGTH]


async def present_tag(state: AppState, key: Row) -> str | None:
    """Return the present tag of a record."""
    return tag_of(await newest(state, key))


async def newest(state: AppState, key: Row) -> TenantRecord | None:
    """Return the newest record under a key: what this process wrote, or what the read model has."""
    state.drop_shown()
    return state.newest(key, await state.query(lambda db: tenants.setting(db, *key)))
