"""Events of the last hours, each once, and the job that each has or has not."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from hashlib import blake2b

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table, find, no_tombstone
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde import ids
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope

_UNROUTED = (
    "? = 'true' AND routed = 0 AND NOT EXISTS (SELECT 1 FROM jobs j"
    " WHERE j.job_id = events.job_id AND j.tenant_id = events.tenant_id)"
)


_IS = "likelihood({column} = ?, 0.0000001)"
"""Very few events have one subject or one dedup key. SQLite would read all of a tenant instead."""


def event(connection: sqlite3.Connection, event_id: str) -> Envelope | None:
    """Return an event of the last hours."""
    return find(connection, ENVELOPE, TABLE.name, event_id=event_id)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where an event is on the topic `events`, and when a broker took it in (milliseconds)."""

    partition: int
    offset: int
    at: int


def arrival(connection: sqlite3.Connection, event_id: str) -> Arrival:
    """Return where and when a listed event arrived."""
    return Arrival(
        *connection.execute(
            "SELECT part, position, at FROM events WHERE event_id = ?", (event_id,)
        ).fetchone()
    )


def job_id_of(connection: sqlite3.Connection, found: Envelope) -> str | None:
    """Return the id of an event's job; None if there is no job."""
    row = connection.execute(
        "SELECT job_id FROM jobs WHERE job_id = ? AND tenant_id = ?",
        (ids.event_job_id(found.tenant_id, found.source, found.dedup_key), found.tenant_id),
    ).fetchone()
    return None if row is None else str(row[0])


def event_json(found: Envelope, job_id: str | None) -> Json:
    """Return an event as lists show it; `size` is that of its body, in bytes."""
    return {
        "event_id": found.event_id,
        "tenant_id": found.tenant_id,
        "source": found.source,
        "event_type": found.event_type,
        "subject": found.subject,
        "dedup_key": found.dedup_key,
        "received_at": rfc3339(found.received_at),
        "job_id": job_id,
        "size": found.payload_ref.size,
    }


def event_details(found: Envelope) -> Json:
    """Return what a list leaves out of an event."""
    return {
        "occurred_at": rfc3339(found.occurred_at),
        "content_type": found.content_type,
        "delivery_id": found.delivery_id,
        "request_id": found.request_id,
        "routed": found.routed,
        "attributes": found.attributes,
        "fingerprint": found.fingerprint.hex(),
        "payload_hash": found.payload_hash.hex(),
        "payload_ref": asdict(found.payload_ref),
    }


def _item(connection: sqlite3.Connection, entry: Entry) -> Json:
    found = ENVELOPE.decode(entry.record)
    return event_json(found, job_id_of(connection, found))


def _mark(text: str) -> int:
    """Return 64 bits that stand for a text in an index: the texts would double the table."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True
    )


def _row(record: Record) -> Row:
    event = ENVELOPE.read(record.value)
    tenant_id, source, subject = event["tenant_id"], event["source"], event["subject"]
    job_id = ids.event_job_id(tenant_id, source, event["dedup_key"])
    return (
        event["event_id"],
        tenant_id,
        source,
        event["event_type"],
        None if subject is None else _mark(subject),
        _mark(event["dedup_key"]),
        job_id,
        event["routed"],
        record.partition,
        record.offset,
        record.timestamp,
        record.value,
    )


TABLE = Table(
    name="events",
    topic="events",
    key="event_id TEXT",
    columns="tenant_id TEXT NOT NULL, source TEXT NOT NULL, event_type TEXT NOT NULL, "
    "subject_mark INTEGER, key_mark INTEGER NOT NULL, job_id TEXT NOT NULL, "
    "routed INTEGER NOT NULL, part INTEGER NOT NULL, position INTEGER NOT NULL, "
    "at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    # Leave out the ids, which would double each index: few events share a millisecond.
    indexes={
        "newest": "(at)",
        "of_tenant": "(tenant_id, at)",
        "unrouted": "(at) WHERE routed = 0",
        "of_subject": "(subject_mark, at) WHERE subject_mark IS NOT NULL",
        "of_key": "(key_mark, at)",
    },
    split=no_tombstone,
    expires=True,
    kept_hours=lambda settings: settings.events_listed_hours,
    # The dispatcher reads this topic, too, and makes the dead letters.
    reports_poison=False,
)
LISTING = Listing(
    TABLE.name,
    ("/v1/events", "/v1/tenants/{tenant_id}/events"),
    _item,
    {
        "tenant_id": (),
        "source": (),
        "event_type": (),
        "subject": (),
        "dedup_key": (),
        "unrouted": ("true",),
    },
    order=("at", "event_id"),
    conditions={
        "event_type": "event_type GLOB replace(?, '[!', '[^')",
        "subject": _IS.format(column="subject_mark"),
        "dedup_key": _IS.format(column="key_mark"),
        "unrouted": _UNROUTED,
    },
    marks={"subject": _mark, "dedup_key": _mark},
)
"""`event_type` is a glob as in a route; `subject` and `dedup_key` are whole texts;
`unrouted=true` leaves out the events that have a job."""
