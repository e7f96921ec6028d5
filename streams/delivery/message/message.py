"""What happened, before it has a form: the same for every endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that happened, to be told to endpoints.

    `message_id` becomes the `webhook-id`: it is the same in every attempt, replay and re-drive.
    `source` is the source's name, `tidegate` for what happened here. `time` is in milliseconds
    since the epoch. `data` is the vendor's raw body or our JSON, `content_type` its media type.
    """

    message_id: str
    tenant_id: str
    type: str
    source: str
    subject: str | None
    time: int
    content_type: str
    data: bytes = field(repr=False)
    attributes: Mapping[str, str]
    traceparent: str | None
