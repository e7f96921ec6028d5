"""Messages as the delivery stage renders them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from streams.delivery.message.formats import Format, render
from streams.delivery.message.message import Message

MESSAGE = Message(
    message_id="evt_1",
    tenant_id="acme",
    type="ticket.created",
    source="helpdesk",
    subject="42",
    time=1_790_000_000_123,
    content_type="application/json",
    data=b'{"z": 1.10, "a": 12345678901234567890123, "z2": "\xc3\xa9\\u00e9"}',
    attributes={"customer_id": "c1"},
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)


def rendered(format_: Format = "cloudevents", mapping: str | None = None, **changes: Any) -> bytes:
    """The body of the message with these changes."""
    return render(replace(MESSAGE, **changes), format_, mapping).body


def document(**changes: Any) -> dict[str, Any]:
    """The CloudEvents document of the message with these changes."""
    found: dict[str, Any] = orjson.loads(rendered(**changes))
    return found
