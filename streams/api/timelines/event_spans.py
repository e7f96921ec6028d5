"""The spans of an event before its jobs: its arrival, redeliveries, dead letters, deliveries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from streams.api.duplicates import table as duplicates
from streams.api.events.story import record_letters
from streams.api.events.table import Arrival
from streams.api.quarantine.table import quarantined
from streams.api.timelines.delivery_spans import delivery_spans, of_event
from streams.api.timelines.span import Span, link
from streams.dead_letter import is_closed, is_replayed
from streams.serde.records import DeadLetter, Envelope


def event_spans(
    connection: sqlite3.Connection, found: Envelope, arrived: Arrival, *, has_job: bool
) -> list[Span]:
    """Return the spans of an event itself, its arrival first."""
    return [
        _received(connection, found, arrived, has_job=has_job),
        *_redeliveries(connection, found, arrived),
        *(_dead(found, letter) for letter in record_letters(connection, found, arrived)),
        *delivery_spans(connection, of_event(connection, found.tenant_id, found.event_id)),
    ]


def _received(
    connection: sqlite3.Connection, found: Envelope, arrived: Arrival, *, has_job: bool
) -> Span:
    kept = quarantined(connection, found.event_id)
    released = kept is not None and kept.tenant_id == found.tenant_id
    why = None if has_job else "no job was made of it: `route` of the event says which would be"
    return Span(
        "received",
        f"{found.source} {found.event_type}",
        found.event_id,
        None,
        found.received_at,
        max(found.received_at, arrived.at),
        "accepted",
        link("events", found.event_id),
        f"released from the quarantine: {kept.note}" if kept and released else why,
    )


def _redeliveries(
    connection: sqlite3.Connection, found: Envelope, arrived: Arrival
) -> Iterator[Span]:
    counted = duplicates.of_event(connection, found.tenant_id, found.fingerprint, arrived.at)
    if counted is None:
        return
    last = counted.last_event_id
    yield Span(
        "redelivery",
        f"delivered again {counted.count:,} times",
        f"{found.event_id}/redeliveries",
        found.event_id,
        counted.first_at,
        counted.last_at,
        "dropped",
        link("duplicates"),
        None if last is None else f"the last one was {last}",
    )


def _dead(found: Envelope, letter: DeadLetter) -> Span:
    is_open = not is_replayed(letter) and not is_closed(letter)
    over = letter.discarded_at or letter.done_at or letter.replayed_at
    return Span(
        "dead_letter",
        letter.reason,
        letter.id,
        found.event_id,
        letter.at,
        None if is_open else over,
        "waits" if is_open else "over",
        link("dlq", letter.id),
        letter.detail,
        failed=True,
    )
