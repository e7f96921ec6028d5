"""Tenants, their sources and data keys, and the marks of erased tenants."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import orjson

from streams.access import token_records
from streams.api.causes import decision as causes
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PagedList, PageQuery
from streams.api.rows.table import Row, Table, find
from streams.errors import DecodeError
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import endpoint_settings
from streams.tenants.limits import own
from streams.tenants.pauses import pause_in
from streams.tenants.settings import TenantSettings, source_settings, tenant_settings
from streams.topology.limits import Limit

_SEALED = "kind IN ('source', 'endpoint', 'data_key')"
"""SQL: records that hold secrets. A key rotation seals them again, an erasure deletes them."""


def shown_tenant(connection: sqlite3.Connection, record: TenantRecord) -> Json:
    """Return a tenant as the API shows it; `record` is its own setting."""
    mark = erasure(connection, record.tenant_id)
    return {
        "tenant_id": record.tenant_id,
        **TenantSettings().model_dump(mode="json"),
        **_tenant_body(record),
        "disabled": record.disabled,
        "erased_at": None if mark is None else rfc3339(_erased_at(mark)),
        "sources": sorted(sources(connection, record.tenant_id)),
        "updated_at": rfc3339(record.updated_at),
    }


def _page(connection: sqlite3.Connection, query: PageQuery, _: Operator) -> Page:
    """Return tenants in the order of their ids, disabled and erased ones too."""
    records, after = settings_page(connection, "tenant", query)
    return Page(tuple(shown_tenant(connection, record) for record in records), after)


def tenant(connection: sqlite3.Connection, tenant_id: str) -> TenantRecord | None:
    """Return a tenant's own setting."""
    return setting(connection, tenant_id, "tenant", "")


def limits_of(connection: sqlite3.Connection, tenant_id: str) -> tuple[Limit, ...]:
    """Return the limits that a tenant has of its own."""
    record = tenant(connection, tenant_id)
    return () if record is None else _own_limits(record)


def all_limits(connection: sqlite3.Connection) -> dict[str, tuple[Limit, ...]]:
    """Return the limits of each tenant that has some of its own."""
    rows = connection.execute(
        "SELECT record FROM tenants WHERE kind = 'tenant' AND limits > 0 ORDER BY tenant_id"
    )
    records = (TENANT.decode(record) for (record,) in rows)
    return {record.tenant_id: _own_limits(record) for record in records}


def setting(
    connection: sqlite3.Connection, tenant_id: str, kind: str, id_: str
) -> TenantRecord | None:
    """Return a record of `tenants` by its whole key."""
    return find(connection, TENANT, "tenants", tenant_id=tenant_id, kind=kind, id=id_)


def erasure(connection: sqlite3.Connection, tenant_id: str) -> TenantRecord | None:
    """Return the mark of an erased tenant; None for any other."""
    return setting(connection, tenant_id, "erasure", "")


def sources(connection: sqlite3.Connection, tenant_id: str) -> dict[str, TenantRecord]:
    """Return a tenant's sources by name, disabled ones too."""
    rows = connection.execute(
        "SELECT id, record FROM tenants WHERE tenant_id = ? AND kind = 'source'", (tenant_id,)
    )
    return {name: TENANT.decode(record) for name, record in rows}


def settings_page(
    connection: sqlite3.Connection, kind: str, query: PageQuery
) -> tuple[list[TenantRecord], Cursor | None]:
    """Return records of a kind, of one tenant or of all, in the order of tenant and id."""
    tenant_id = query.filters.get("tenant_id")
    behind, _, id_ = (query.cursor.id if query.cursor else "").partition("/")
    of_tenant, values = ("", []) if tenant_id is None else (" AND tenant_id = ?", [tenant_id])
    rows = connection.execute(
        "SELECT record FROM tenants WHERE kind = ?"  # noqa: S608  constants
        f"{of_tenant} AND (tenant_id, id) > (?, ?) ORDER BY tenant_id, id LIMIT ?",
        (kind, *values, behind, id_, query.limit + 1),
    ).fetchall()
    page = [TENANT.decode(record) for (record,) in rows[: query.limit]]
    more = len(rows) > len(page)
    return page, Cursor(0, f"{page[-1].tenant_id}/{page[-1].id}") if more else None


def sealed_settings(
    connection: sqlite3.Connection, after: tuple[str, str, str], limit: int
) -> list[TenantRecord]:
    """Return the records with secrets behind a key, in the order of their keys."""
    rows = connection.execute(
        "SELECT record FROM tenants WHERE (tenant_id, kind, id) > (?, ?, ?)"  # noqa: S608
        f" AND {_SEALED} ORDER BY tenant_id, kind, id LIMIT ?",
        (*after, limit),
    )
    return [TENANT.decode(record) for (record,) in rows]


def oldest_data_keys(connection: sqlite3.Connection, limit: int) -> list[TenantRecord]:
    """Return the data keys that were sealed first, in the order of that time."""
    rows = connection.execute(
        "SELECT record FROM tenants WHERE kind = 'data_key' ORDER BY updated_at LIMIT ?", (limit,)
    )
    return [TENANT.decode(record) for (record,) in rows]


def undestroyed(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return the keys of erased tenants' records with secrets, which are still to be deleted."""
    return connection.execute(
        f"SELECT tenant_id, kind, id FROM tenants WHERE {_SEALED}"  # noqa: S608
        " AND tenant_id IN (SELECT tenant_id FROM tenants WHERE kind = 'erasure')"
    ).fetchall()


def _row(record: Record) -> Row:
    setting = TENANT.decode(record.value)
    _require_readable(setting)
    limits = len(_own_limits(setting)) if setting.kind == "tenant" else 0
    enabled = setting.kind != "endpoint" or endpoint_settings(setting).enabled
    key = setting.tenant_id, setting.kind, setting.id
    return *key, setting.updated_at, limits, enabled, *_decided(setting), record.value


def _decided(record: TenantRecord) -> tuple[str | None, int | None]:
    """Return what a decision about a cause says, and until when; None in any other record."""
    if record.kind != causes.KIND:
        return None, None
    decision = causes.decision_in(record)
    return decision.state, decision.until


def _own_limits(record: TenantRecord) -> tuple[Limit, ...]:
    """The limits in a tenant's record; none if they cannot be read: no dispatcher reads them."""
    try:
        return own(tenant_settings(record).limits)
    except ValueError:
        return ()


def _require_readable(setting: TenantRecord) -> None:
    """Check that the lists can show a setting: one that cannot be read would fail them all.

    Raises:
        DecodeError: its body is not of its kind; the message repeats nothing of it.
    """
    try:
        _READERS.get(setting.kind, bool)(setting)
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        what = f"tenants: the body of a record of kind {setting.kind!r} cannot be read"
        raise DecodeError(f"{what} ({type(error).__name__})") from None


def _tenant_body(record: TenantRecord) -> Json:
    """Return a tenant's settings, also those that a later release added."""
    return {**orjson.loads(record.body)}


def _erased_at(mark: TenantRecord) -> int:
    """Return when a tenant was erased, in milliseconds."""
    return int(orjson.loads(mark.body)["at"])


_READERS: dict[str, Callable[[TenantRecord], object]] = {
    "tenant": _tenant_body,
    "source": source_settings,
    "endpoint": endpoint_settings,
    "erasure": _erased_at,
    "pause": pause_in,
    causes.KIND: causes.decision_in,
    token_records.KIND: token_records.grant_in,
    token_records.USE: token_records.use_in,
}
"""What reads the bodies of each kind that the API shows."""


TABLE = Table(
    name="tenants",
    topic="tenants",
    key="tenant_id TEXT, kind TEXT, id TEXT",
    columns="updated_at INTEGER NOT NULL, limits INTEGER NOT NULL, enabled INTEGER NOT NULL, "
    "decision TEXT, until INTEGER, record BLOB NOT NULL",
    row=_row,
    # The pause of a worker names it, and it may be another tenant's.
    belongs="(tenant_id {covered} OR (tenant_id = '' AND kind = 'pause'"
    " AND substr(id, instr(id, '/') + 1, 7) <> 'worker/'))",
    indexes={
        "data_keys": "(updated_at) WHERE kind = 'data_key'",
        "erasures": "(tenant_id) WHERE kind = 'erasure'",
        "pauses": "(tenant_id) WHERE kind = 'pause'",
        "limited": "(tenant_id) WHERE kind = 'tenant' AND limits > 0",
    },
    # The ingress reads this topic, too, and makes the dead letters. Another copy of a sealed secret
    # would outlive the erasure of its tenant.
    reports_poison=False,
)
LISTING = PagedList("tenants", ("/v1/tenants",), _page, {})
