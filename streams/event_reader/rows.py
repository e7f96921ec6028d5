"""An event as one row of plain values, for people and for programs."""

from __future__ import annotations

from typing import Any

from streams.event_reader.scan import Found


def row(found: Found) -> dict[str, Any]:
    """Every field of an event, and its place; times in milliseconds since 1970.

    `at` is the time at which a broker took the delivery in. Hashes are in hex.
    """
    event = found.event
    return {
        "event_id": event.event_id,
        "tenant_id": event.tenant_id,
        "source": event.source,
        "event_type": event.event_type,
        "subject": event.subject,
        "dedup_key": event.dedup_key,
        "at": found.at,
        "received_at": event.received_at,
        "occurred_at": event.occurred_at,
        "content_type": event.content_type,
        "delivery_id": event.delivery_id,
        "request_id": event.request_id,
        "payload_hash": event.payload_hash.hex(),
        "payload_size": event.payload_ref.size,
        "attributes": event.attributes,
        "routed": event.routed,
        "fingerprint": event.fingerprint.hex(),
        "partition": found.partition,
        "offset": found.offset,
    }


TIMES = ("at", "received_at", "occurred_at")
"""The columns of a row that are times."""
