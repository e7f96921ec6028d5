"""The five headers an event carries: its trace, and what CloudEvents requires.

CloudEvents 1.0.2, Kafka protocol binding, binary content mode: `ce_` and the attribute's name,
values in UTF-8. Only the four required attributes are sent, since each header costs every reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streams.serde.ids import new_traceparent

if TYPE_CHECKING:
    from ingress.receive.event import Event

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def continued_trace(given: str | None) -> str:
    """The sender's `traceparent` if it is well-formed, else a new root (W3C Trace Context)."""
    if given is not None and _TRACEPARENT.fullmatch(given):
        return given
    return new_traceparent()


def event_headers(event: Event) -> list[tuple[str, bytes]]:
    """Headers of the event's record; `ce_source` is a relative URI-reference (RFC 3986)."""
    return [
        ("traceparent", event.traceparent.encode()),
        ("ce_id", event.event_id.encode()),
        ("ce_source", f"/tenants/{event.tenant_id}/sources/{event.source}".encode()),
        ("ce_specversion", b"1.0"),
        ("ce_type", event.normalized.event_type.encode()),
    ]
