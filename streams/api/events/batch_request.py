"""Body of `POST /v1/tenants/{t}/events:batch`, and the events that its items become."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from streams import user_json
from streams.api.fields import Body, Moment
from streams.event_admission import NewEvent
from streams.http.moments import milliseconds
from streams.tenants.settings import NAME, OWN_SOURCE

MAX_EVENTS = 500
MAX_PAYLOAD_BYTES = 1024 * 1024

_NAMED = r"^[^\x00-\x1f\x7f-\x9f\uFDD0-\uFDEF\uFFFE\uFFFF]+$"
"""The characters that CloudEvents 1.0 allows in a String, which an event type becomes."""

Key = Annotated[str, Field(min_length=1, max_length=512, pattern=_NAMED)]
Text = Annotated[str, Field(max_length=512)]


class BatchRequest(Body):
    """The whole request; its events are validated one by one."""

    events: Annotated[list[Any], Field(min_length=1, max_length=MAX_EVENTS)]


class EventRequest(Body):
    """One event; `occurred_at` is RFC 3339, `payload` is any JSON and is sealed as the body."""

    source: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    event_type: Annotated[str, Field(min_length=1, max_length=200, pattern=_NAMED)]
    dedup_key: Key | None = None
    subject: Key | None = None
    occurred_at: Moment | None = None
    attributes: Annotated[dict[Key, Text], Field(max_length=64)] = Field(default_factory=dict)
    payload: Any = None

    @field_validator("source")
    @classmethod
    def _is_not_ours(cls, source: str) -> str:
        if source == OWN_SOURCE:
            raise ValueError("is the source of Tidegate's own messages: choose another")
        return source

    @field_validator("payload")
    @classmethod
    def _fits(cls, payload: Any) -> Any:
        try:
            size = len(user_json.write(payload))
        except TypeError as error:
            raise ValueError(f"cannot be kept as it is: {error}") from None
        if size > MAX_PAYLOAD_BYTES:
            raise ValueError(f"has more than {MAX_PAYLOAD_BYTES} bytes")
        return payload

    def event(self, tenant_id: str, traceparent: str, callback_url: str | None) -> NewEvent:
        """Return the event; keys are sorted, so that equal payloads have equal hashes."""
        return NewEvent(
            tenant_id=tenant_id,
            source=self.source,
            event_type=self.event_type,
            dedup_key=self.dedup_key,
            subject=self.subject,
            occurred_at=None if self.occurred_at is None else milliseconds(self.occurred_at),
            attributes=self.attributes,
            payload=user_json.write(self.payload, sort_keys=True),
            traceparent=traceparent,
            callback_url=callback_url,
        )
