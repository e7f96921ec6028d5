"""The five headers an event carries: its trace, and what CloudEvents requires.

CloudEvents 1.0.2, Kafka protocol binding, binary content mode: `ce_` and the attribute's name,
values in UTF-8. Only the four required attributes are sent, since each header costs every reader.
"""

from __future__ import annotations

from streams.serde.records import Envelope


def event_headers(event: Envelope, traceparent: str) -> list[tuple[str, bytes]]:
    """Headers of the event's record; `ce_source` is a relative URI-reference (RFC 3986).

    The trace comes first: readers that look for traced records look there.
    """
    return [
        ("traceparent", traceparent.encode()),
        ("ce_id", event.event_id.encode()),
        ("ce_source", f"/tenants/{event.tenant_id}/sources/{event.source}".encode()),
        ("ce_specversion", b"1.0"),
        ("ce_type", event.event_type.encode()),
    ]
