"""What the read model knows of tenants, their sources and their settings."""

from __future__ import annotations

import sqlite3

import orjson

from streams.operator.http.views import Json, tenant_json
from streams.operator.read_model.cursor import Cursor
from streams.operator.read_model.queries import Page
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord


def shown_tenant(connection: sqlite3.Connection, record: TenantRecord) -> Json:
    """A tenant as the API shows it, whose own setting is given."""
    mark = setting(connection, record.tenant_id, "erasure", "")
    erased_at = None if mark is None else int(orjson.loads(mark.body)["at"])
    return tenant_json(record, source_names(connection, record.tenant_id), erased_at)


def tenants_page(connection: sqlite3.Connection, limit: int, cursor: Cursor | None) -> Page:
    """Tenants in the order of their ids."""
    rows = connection.execute(
        "SELECT tenant_id, record FROM tenants WHERE kind = 'tenant' AND tenant_id > ?"
        " ORDER BY tenant_id LIMIT ?",
        (cursor.id if cursor else "", limit + 1),
    ).fetchall()
    shown = tuple(shown_tenant(connection, TENANT.decode(record)) for _, record in rows[:limit])
    return Page(shown, Cursor(0, rows[limit - 1][0]) if len(rows) > limit else None)


def tenant(connection: sqlite3.Connection, tenant_id: str) -> TenantRecord | None:
    """A tenant's own setting."""
    return setting(connection, tenant_id, "tenant", "")


def setting(
    connection: sqlite3.Connection, tenant_id: str, kind: str, id_: str
) -> TenantRecord | None:
    """A record of `tenants` by its whole key."""
    row = connection.execute(
        "SELECT record FROM tenants WHERE tenant_id = ? AND kind = ? AND id = ?",
        (tenant_id, kind, id_),
    ).fetchone()
    return None if row is None else TENANT.decode(row[0])


def sources(connection: sqlite3.Connection, tenant_id: str) -> dict[str, TenantRecord]:
    """A tenant's sources by name, disabled ones too."""
    rows = connection.execute(
        "SELECT id, record FROM tenants WHERE tenant_id = ? AND kind = 'source'", (tenant_id,)
    )
    return {name: TENANT.decode(record) for name, record in rows}


def sealed_settings(
    connection: sqlite3.Connection, after: tuple[str, str, str], limit: int
) -> list[TenantRecord]:
    """Sources and data keys behind a key, in the order of their keys."""
    rows = connection.execute(
        "SELECT record FROM tenants WHERE (tenant_id, kind, id) > (?, ?, ?)"
        " AND kind IN ('source', 'data_key') ORDER BY tenant_id, kind, id LIMIT ?",
        (*after, limit),
    )
    return [TENANT.decode(record) for (record,) in rows]


def undestroyed(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Keys of the sources and data keys that an erasure has left, or that came after it."""
    return connection.execute(
        "SELECT tenant_id, kind, id FROM tenants WHERE kind IN ('source', 'data_key')"
        " AND tenant_id IN (SELECT tenant_id FROM tenants WHERE kind = 'erasure')"
    ).fetchall()


def source_names(connection: sqlite3.Connection, tenant_id: str) -> list[str]:
    """A tenant's sources by name, disabled ones too."""
    rows = connection.execute(
        "SELECT id FROM tenants WHERE tenant_id = ? AND kind = 'source' ORDER BY id", (tenant_id,)
    )
    return [name for (name,) in rows]
