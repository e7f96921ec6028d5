"""Records folded into a read model as the operator does it, without a broker."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from streams.api.read_model.database import transaction
from streams.api.read_model.projections import Changes, project, write
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.serde.bulk_records import BulkRecord
from streams.serde.codec import (
    APPROVAL,
    BULK,
    DEAD_LETTER,
    DELIVERY,
    DELIVERY_ATTEMPT,
    ENDPOINT_STATE,
    ENVELOPE,
    JOB,
    LEDGER_ENTRY,
    QUARANTINED,
    TENANT,
)
from streams.serde.delivery_records import Delivery, DeliveryAttempt, EndpointState
from streams.serde.records import (
    Approval,
    DeadLetter,
    Envelope,
    Job,
    LedgerEntry,
    Quarantined,
    TenantRecord,
)

TOPICS: dict[type, tuple[str, Any]] = {
    Envelope: ("events", ENVELOPE),
    Job: ("jobs", JOB),
    LedgerEntry: ("ledger", LEDGER_ENTRY),
    DeadLetter: ("dlq", DEAD_LETTER),
    Delivery: ("deliveries", DELIVERY),
    DeliveryAttempt: ("deliveries.attempts", DELIVERY_ATTEMPT),
    EndpointState: ("deliveries.endpoints", ENDPOINT_STATE),
    Approval: ("approvals", APPROVAL),
    Quarantined: ("quarantine", QUARANTINED),
    BulkRecord: ("bulk", BULK),
    TenantRecord: ("tenants", TENANT),
}


def fold(connection: sqlite3.Connection, *values: Any, at: int = 0, key: bytes = b"") -> None:
    """Fold values as one batch; `at` is the time (ms) of their records, `key` their key."""
    with transaction(connection):
        fold_inside(connection, *values, at=at, key=key)


def fold_inside(
    connection: sqlite3.Connection, *values: Any, at: int = 0, key: bytes = b""
) -> None:
    """Fold values as one batch, inside the caller's transaction."""
    named = ((*TOPICS[type(value)], value) for value in values)
    _write(connection, [Record(t, 0, 0, at, key, codec.encode(v)) for t, codec, v in named])


def fold_records(connection: sqlite3.Connection, *records: Record) -> None:
    """Fold records as one batch."""
    with transaction(connection):
        _write(connection, records)


def _write(connection: sqlite3.Connection, records: Iterable[Record]) -> None:
    batch: dict[str, Changes] = {}
    for record in records:
        project(record, batch)
    write(connection, batch, wall_ms())
