"""Deliveries: what each endpoint gets of each message, as the delivery stage last wrote it.

A query about one tenant names it in SQL (G3), so that no row of another tenant is ever read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from streams.api.deliveries.attempts_table import attempts_of
from streams.api.endpoints.table import endpoint_state
from streams.api.remedy import Remedy, put
from streams.api.rows.json_values import Json, trace_id
from streams.api.rows.matched import Matched, matched
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table, find, status_in
from streams.api.tenants import table as tenants
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import DELIVERY
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import CLOSED, NAMES, PENDING, DeliveryStatus

LISTED_ATTEMPTS = 3
"""How many attempts a list shows of each delivery, the last ones."""
_MOST_RELATED = 100
"""So many deliveries of one event or job are named, the newest ones."""

_EVER = 2**63 - 1
_DUE = status_in(PENDING)


@dataclass(frozen=True, slots=True)
class RecoveryRange:
    """Deliveries of one endpoint created in [since, until), milliseconds, in these statuses.

    Without `until` they are all up to now by the delivery stage's clock, not by the operator's.
    """

    tenant_id: str
    endpoint_id: str
    since: int
    until: int | None
    statuses: tuple[DeliveryStatus, ...]


def delivery(connection: sqlite3.Connection, delivery_id: str) -> Delivery | None:
    """Return the newest state of a delivery."""
    return find(connection, DELIVERY, TABLE.name, delivery_id=delivery_id)


def shown_delivery(connection: sqlite3.Connection, delivery_id: str) -> Json | None:
    """Return a delivery as the API shows it alone, with all its attempts that are kept."""
    found = delivery(connection, delivery_id)
    if found is None:
        return None
    return delivery_json(found, attempts_of(connection, found), waits_of(connection, found))


def count(connection: sqlite3.Connection, selected: RecoveryRange) -> Matched:
    """Count the deliveries of a selection, up to a bound; no recovery sends a test again."""
    marks = ", ".join("?" * len(selected.statuses))
    where = (
        f"tenant_id = ? AND endpoint_id = ? AND status IN ({marks})"
        " AND created_at >= ? AND created_at < ? AND kind <> 'test'"
    )
    values = (
        selected.tenant_id,
        selected.endpoint_id,
        *selected.statuses,
        selected.since,
        _EVER if selected.until is None else selected.until,
    )
    return matched(connection, "deliveries", where, values)


def by_status(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the deliveries of the whole cluster."""
    return dict(
        connection.execute("SELECT status, count(*) FROM deliveries GROUP BY status").fetchall()
    )


def oldest_due(connection: sqlite3.Connection) -> int | None:
    """Return when the first pending delivery was or will be due, in milliseconds."""
    row = connection.execute(
        "SELECT next_attempt_at FROM deliveries INDEXED BY deliveries_due"  # noqa: S608  constants
        f" WHERE {_DUE} AND next_attempt_at IS NOT NULL ORDER BY next_attempt_at LIMIT 1"
    ).fetchone()
    return None if row is None else int(row[0])


def of_event(connection: sqlite3.Connection, tenant_id: str, event_id: str) -> list[Json]:
    """Return the deliveries of an event and of the end of its job, oldest first."""
    return _summaries(connection, rows_of_event(connection, tenant_id, event_id))


def of_job(connection: sqlite3.Connection, tenant_id: str, job_id: str) -> list[Json]:
    """Return those of a job's end and approvals, and to its `callback_url`, oldest first."""
    return _summaries(connection, rows_of_job(connection, tenant_id, job_id))


def rows_of_event(connection: sqlite3.Connection, tenant_id: str, event_id: str) -> list[Delivery]:
    """Return the newest deliveries of `of_event`, oldest first."""
    return _related(connection, "event_id = ?", tenant_id, event_id)


def rows_of_job(connection: sqlite3.Connection, tenant_id: str, job_id: str) -> list[Delivery]:
    """Return the newest deliveries of `of_job`, oldest first."""
    return _related(connection, "job_id = ? AND kind IN ('job', 'callback')", tenant_id, job_id)


def _related(
    connection: sqlite3.Connection, where: str, tenant_id: str, id_: str
) -> list[Delivery]:
    rows = connection.execute(
        f"SELECT record FROM deliveries WHERE {where} AND tenant_id = ?"  # noqa: S608  constants
        " ORDER BY created_at DESC, delivery_id DESC LIMIT ?",
        (id_, tenant_id, _MOST_RELATED),
    )
    return [DELIVERY.decode(record) for (record,) in rows][::-1]


def _summaries(connection: sqlite3.Connection, rows: Iterable[Delivery]) -> list[Json]:
    return [_summary(row, waits_of(connection, row)) for row in rows]


def waits_of(connection: sqlite3.Connection, row: Delivery) -> Json | None:
    """Return what holds a pending delivery back beyond its own time, otherwise None.

    A test waits for nothing but its time. `until` is null if nobody knows when it ends. A delivery
    that a person drove anew ends the wait of an open circuit at once.
    """
    if row.status != PENDING or row.is_test:
        return None
    holder = tenants.tenant(connection, row.tenant_id)
    if holder is not None and holder.disabled:
        told = f"tenant {row.tenant_id!r} is disabled: it goes on once that is enabled"
        return _held("tenant_disabled", told, remedy=put("tenants", row.tenant_id))
    state = endpoint_state(connection, row.tenant_id, row.endpoint_id)
    if row.lane is not None and state.recovery is not None and state.recovery.ended_at is None:
        return _held(
            "recovery",
            f"endpoint {row.endpoint_id!r} keeps an order: nothing is sent to it until its "
            "recovery has made all its deliveries due",
        )
    open_until = state.open_until or 0
    probed = row.command_id is not None and row.updated_at >= open_until
    if state.circuit == CLOSED or probed or (row.next_attempt_at or 0) > open_until:
        return None
    until = rfc3339(state.open_until)
    return _held(
        "circuit",
        f"endpoint {row.endpoint_id!r} has failed several times in a row: nothing is sent to it "
        f"until {until}, then one delivery goes first; mend its receiver, then test the endpoint "
        "or retry a delivery",
        until,
    )


def _held(reason: str, detail: str, until: str | None = None, remedy: Remedy | None = None) -> Json:
    helps = None if remedy is None else remedy.json()
    return {"reason": reason, "until": until, "detail": detail, "remedy": helps}


def delivery_json(row: Delivery, attempts: list[Json], waits: Json | None = None) -> Json:
    """Return a delivery; `attempt_count` counts all attempts, `attempts` has some of them."""
    return {
        **_summary(row, waits),
        "tenant_id": row.tenant_id,
        "event_id": row.event_id,
        "job_id": row.job_id,
        "source": row.source,
        "url": row.url,
        "format": row.format,
        "attempts": attempts,
        "command_id": row.command_id,
        "trace_id": trace_id(row.traceparent),
    }


def _summary(row: Delivery, waits: Json | None) -> Json:
    """Return what an event or a job says of its deliveries."""
    return {
        "delivery_id": row.delivery_id,
        "endpoint_id": row.endpoint_id,
        "message_id": row.message_id,
        "type": row.type,
        "kind": row.kind,
        "status": row.status,
        "attempt_count": row.attempts,
        "next_attempt_at": waits["until"] if waits else rfc3339(row.next_attempt_at),
        "parked_because": row.parked_because,
        "waits": waits,
        "last_status": row.last_status,
        "last_error": row.last_error,
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
    }


def _item(connection: sqlite3.Connection, entry: Entry) -> Json:
    row = DELIVERY.decode(entry.record)
    attempts = attempts_of(connection, row, LISTED_ATTEMPTS)
    return delivery_json(row, attempts, waits_of(connection, row))


def _row(record: Record) -> Row:
    row = DELIVERY.read(record.value)
    return (
        row["delivery_id"],
        row["tenant_id"],
        row["endpoint_id"],
        row["status"],
        row["kind"],
        row["event_id"],
        row["job_id"],
        row["next_attempt_at"],
        row["created_at"],
        record.value,
    )


TABLE = Table(
    name="deliveries",
    topic="deliveries",
    key="delivery_id TEXT",
    columns="tenant_id TEXT NOT NULL, endpoint_id TEXT NOT NULL, status TEXT NOT NULL, "
    "kind TEXT NOT NULL, event_id TEXT, job_id TEXT, next_attempt_at INTEGER, "
    "created_at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    fixed=("tenant_id", "endpoint_id", "kind", "event_id", "job_id", "created_at"),
    # Leave out the ids, which would double each index: few deliveries share a millisecond.
    indexes={
        "newest": "(created_at)",
        "by_status": "(status, created_at)",
        "of_tenant": "(tenant_id, created_at)",
        "of_tenant_by_status": "(tenant_id, status, created_at)",
        "of_endpoint": "(tenant_id, endpoint_id, created_at)",
        "of_endpoint_by_status": "(tenant_id, endpoint_id, status, created_at)",
        "of_event": "(event_id) WHERE event_id IS NOT NULL",
        "of_job": "(job_id) WHERE job_id IS NOT NULL",
        "due": f"(next_attempt_at) WHERE {_DUE}",
    },
)
LISTING = Listing(
    TABLE.name,
    ("/v1/deliveries", "/v1/tenants/{tenant_id}/endpoints/{endpoint_id}/deliveries"),
    _item,
    {
        "tenant_id": (),
        "endpoint_id": (),
        "status": NAMES,
        "event_id": (),
        "job_id": (),
        "since": (),
    },
    order=("created_at", "delivery_id"),
    conditions={"since": "created_at >= ?"},
    times=("since",),
)
"""`since` is an RFC 3339 time; the list has what was created then or later."""
