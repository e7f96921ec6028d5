"""Refused deliveries: how often, why, and when, as every ingress counted them."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import REJECTION


def _row(record: Record) -> Row:
    counted = REJECTION.decode(record.value)
    return counted.id, counted.tenant_id, counted.last_at, record.value


def _item(_: sqlite3.Connection, entry: Entry) -> Json:
    """Return the refusals of one kind within one interval."""
    counted = REJECTION.decode(entry.record)
    return {
        "id": counted.id,
        "tenant_id": counted.tenant_id,
        "source": counted.source,
        "reason": counted.reason,
        "cause": counted.cause,
        "count": counted.count,
        "first_at": rfc3339(counted.first_at),
        "last_at": rfc3339(counted.last_at),
    }


TABLE = Table(
    name="rejections",
    topic="rejections",
    key="id TEXT",
    columns="tenant_id TEXT, at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={"newest": "(at, id)", "of_tenant": "(tenant_id, at, id)"},
    expires=True,
)
LISTING = Listing(TABLE.name, ("/v1/rejections", "/v1/tenants/{tenant_id}/rejections"), _item)
