"""Attempts to deliver, as they ended; they age with their topic."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.table import Row, Table, no_tombstone
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import DELIVERY_ATTEMPT
from streams.serde.delivery_records import Delivery, DeliveryAttempt

_ALL = -1


def attempts_of(connection: sqlite3.Connection, row: Delivery, last: int = _ALL) -> list[Json]:
    """Return the `last` attempts of a delivery that are kept, oldest first, as the API does."""
    return [_attempt_json(ended) for ended in ended_attempts(connection, row, last)]


def ended_attempts(
    connection: sqlite3.Connection, row: Delivery, last: int = _ALL
) -> list[DeliveryAttempt]:
    """Return the `last` attempts of a delivery that are kept, oldest first."""
    found = connection.execute(
        "SELECT record FROM attempts WHERE delivery_id = ? AND tenant_id = ?"
        " ORDER BY attempt DESC LIMIT ?",
        (row.delivery_id, row.tenant_id, last),
    ).fetchall()
    return [DELIVERY_ATTEMPT.decode(record) for (record,) in reversed(found)]


def _attempt_json(ended: DeliveryAttempt) -> Json:
    return {
        "attempt": ended.attempt,
        "at": rfc3339(ended.at),
        "duration_ms": ended.duration_ms,
        "address": ended.address,
        "status": ended.status,
        "error": ended.error,
        "detail": ended.detail,
        "excerpt": ended.excerpt,
        "next_attempt_at": rfc3339(ended.next_attempt_at),
    }


def _row(record: Record) -> Row:
    ended = DELIVERY_ATTEMPT.decode(record.value)
    failed = ended.error is not None
    return ended.delivery_id, ended.attempt, ended.tenant_id, ended.at, failed, record.value


TABLE = Table(
    name="attempts",
    topic="deliveries.attempts",
    key="delivery_id TEXT, attempt INTEGER",
    columns="tenant_id TEXT NOT NULL, at INTEGER NOT NULL, failed INTEGER NOT NULL, "
    "record BLOB NOT NULL",
    row=_row,
    indexes={"by_age": "(at)"},
    split=no_tombstone,
    expires=True,
)
