"""Sources as the API shows them; their records are in the table of tenants."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PagedList, PageQuery
from streams.api.tenants.table import settings_page
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.tenants.settings import source_settings
from streams.tenants.source_keys import holds


def source_json(record: TenantRecord, now: int) -> Json:
    """Return a source, with how many of its secrets verify at `now` (milliseconds)."""
    keys = [key for key in record.keys if holds(key, now)]
    return {
        "tenant_id": record.tenant_id,
        "source": record.id,
        **source_settings(record).model_dump(),
        "disabled": record.disabled,
        "secrets": len(keys),
        "secret_ref": keys[0].reference if keys else None,
        "old_secrets": [
            {"secret_ref": key.reference, "valid_until": rfc3339(key.until)} for key in keys[1:]
        ],
        "updated_at": rfc3339(record.updated_at),
    }


def _page(connection: sqlite3.Connection, query: PageQuery, _: Operator) -> Page:
    """Return sources in the order of tenant and name, disabled ones too."""
    (records, after), now = settings_page(connection, "source", query), wall_ms()
    return Page(tuple(source_json(record, now) for record in records), after)


LISTING = PagedList("sources", ("/v1/sources", "/v1/tenants/{tenant_id}/sources"), _page)
