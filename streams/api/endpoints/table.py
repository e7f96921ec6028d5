"""Outgoing endpoints: their settings, their keys, and what the delivery stage knows of them."""

from __future__ import annotations

import sqlite3

from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PagedList, PageQuery
from streams.api.rows.table import Row, Table, find
from streams.api.tenants.table import setting, settings_page
from streams.delivery.message.signing import public_key
from streams.errors import SignatureError, VaultError
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.serde.codec import ENDPOINT_STATE
from streams.serde.delivery_records import EndpointState, Recovery
from streams.serde.delivery_states import CLOSED, OPEN
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.endpoints import endpoint_headers, endpoint_settings, open_key
from streams.tenants.source_keys import holds
from streams.vault.key_encryption import Vault

IS_CUT_OFF = f"circuit = '{OPEN}'"
"""SQL for endpoints to which nothing is sent for a while, because they failed."""
IS_FAILING = f"circuit = '{CLOSED}' AND failing_since IS NOT NULL"
"""SQL for endpoints whose last attempt failed without an open circuit, also if that disabled them.
"""
IS_ENABLED = (
    "EXISTS (SELECT 1 FROM tenants t WHERE t.tenant_id = endpoint_states.tenant_id "
    "AND t.kind = 'endpoint' AND t.id = endpoint_states.endpoint_id AND t.enabled)"
)
"""SQL for the states of endpoints that nobody has disabled by hand."""
_STATES = {"cut_off": IS_CUT_OFF, "failing": IS_FAILING}


def endpoint_state(connection: sqlite3.Connection, tenant_id: str, name: str) -> EndpointState:
    """Return what the delivery stage knows of an endpoint; before a failure it knows nothing."""
    state = find(connection, ENDPOINT_STATE, TABLE.name, tenant_id=tenant_id, endpoint_id=name)
    unknown = EndpointState(tenant_id, name, CLOSED, None, None, None, None, None, 0)
    return unknown if state is None else state


def endpoints_count(connection: sqlite3.Connection, tenant_id: str) -> int:
    rows = "SELECT count(*) FROM tenants WHERE tenant_id = ? AND kind = 'endpoint'"
    count: int = connection.execute(rows, (tenant_id,)).fetchone()[0]
    return count


def _page(connection: sqlite3.Connection, query: PageQuery, operator: Operator) -> Page:
    """Return endpoints in the order of tenant and id."""
    read = settings_page if query.filters.get("state") is None else _page_in_state
    (records, after), now = read(connection, "endpoint", query), wall_ms()
    shown = (shown_endpoint(connection, record, operator.vault, now) for record in records)
    return Page(tuple(shown), after)


def _page_in_state(
    connection: sqlite3.Connection, kind: str, query: PageQuery
) -> tuple[list[TenantRecord], Cursor | None]:
    """Return enabled endpoints in a state; few are, so the others are not looked at."""
    tenant_id, place = query.filters.get("tenant_id"), query.cursor.id if query.cursor else ""
    behind, _, endpoint_id = place.partition("/")
    of_tenant, values = ("", []) if tenant_id is None else (" AND tenant_id = ?", [tenant_id])
    rows = connection.execute(
        f"SELECT tenant_id, endpoint_id FROM endpoint_states WHERE {_STATES[str(query.filters['state'])]}"  # noqa: S608, E501  constants
        f" AND {IS_ENABLED}{of_tenant} AND (tenant_id, endpoint_id) > (?, ?)"
        " ORDER BY tenant_id, endpoint_id LIMIT ?",
        (*values, behind, endpoint_id, query.limit + 1),
    ).fetchall()
    shown = rows[: query.limit]
    found = (setting(connection, of, kind, id_) for of, id_ in shown)
    after = Cursor(0, "/".join(shown[-1])) if len(rows) > len(shown) else None
    return [record for record in found if record is not None], after


def shown_endpoint(
    connection: sqlite3.Connection, record: TenantRecord, vault: Vault, now: int
) -> Json:
    """Return an endpoint with its state, its keys at `now` (milliseconds), and no secret.

    `headers` is null, and so is a key's `kind`, if the operator has no vault key that opens them.
    """
    settings = endpoint_settings(record)
    state = endpoint_state(connection, record.tenant_id, record.id)
    return {
        "tenant_id": record.tenant_id,
        "endpoint_id": record.id,
        **settings.model_dump(exclude={"created_at", "set_at"}),
        "headers": _header_names(vault, record),
        "keys": [_key_json(vault, record, key) for key in record.keys if holds(key, now)],
        "state": _state_json(state, enabled_at=settings.set_at if settings.enabled else 0),
        "created_at": rfc3339(settings.created_at),
        "updated_at": rfc3339(record.updated_at),
    }


def _header_names(vault: Vault, record: TenantRecord) -> list[str] | None:
    try:
        return sorted(endpoint_headers(vault, record))
    except VaultError:
        return None


def _key_json(vault: Vault, record: TenantRecord, key: SigningKey) -> Json:
    kind = public = None
    if key.sealed is not None:
        try:
            public = public_key(open_key(vault, record, key.sealed))
            kind = "v1" if public is None else "v1a"
        except (VaultError, SignatureError):
            kind = None
    return {
        "kind": kind,
        "secret_ref": key.reference,
        "public_key": public,
        "until": rfc3339(key.until),
    }


def _state_json(state: EndpointState, enabled_at: int) -> Json:
    """Return the stage's state; a PUT at `enabled_at` ended an automatic disabling before it."""
    disabled = state.disabled_at is not None and state.disabled_at >= enabled_at
    return {
        "circuit": state.circuit,
        "open_until": rfc3339(state.open_until),
        "failing_since": rfc3339(state.failing_since),
        "disabled_because": state.disabled_because if disabled else None,
        "disabled_at": rfc3339(state.disabled_at) if disabled else None,
        "recovery": None if state.recovery is None else recovery_json(state.recovery),
    }


def recovery_json(recovery: Recovery) -> Json:
    """Return a recovery; `recovered` rows are due again, `ended_at` is null while it runs."""
    return {
        "command_id": recovery.command_id,
        "since": rfc3339(recovery.since),
        "until": rfc3339(recovery.until),
        "statuses": recovery.statuses,
        "recovered": recovery.recovered,
        "ended_at": rfc3339(recovery.ended_at),
    }


def _row(record: Record) -> Row:
    state = ENDPOINT_STATE.decode(record.value)
    return state.tenant_id, state.endpoint_id, state.circuit, state.failing_since, record.value


TABLE = Table(
    name="endpoint_states",
    topic="deliveries.endpoints",
    key="tenant_id TEXT, endpoint_id TEXT",
    columns="circuit TEXT NOT NULL, failing_since INTEGER, record BLOB NOT NULL",
    row=_row,
    indexes={
        "cut_off": f"(circuit, tenant_id) WHERE {IS_CUT_OFF}",
        "failing": f"(circuit, tenant_id, endpoint_id, failing_since) WHERE {IS_FAILING}",
    },
)
LISTING = PagedList(
    "endpoints",
    ("/v1/endpoints", "/v1/tenants/{tenant_id}/endpoints"),
    _page,
    {"tenant_id": (), "state": tuple(_STATES)},
)
