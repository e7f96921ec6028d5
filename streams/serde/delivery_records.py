"""The values of outgoing webhooks on topics and in stores, one frozen dataclass for each record.

As in `records`, field names and meanings are documented in `schemas/*.avsc`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from streams.serde.delivery_states import (
    Circuit,
    DeliveryStatus,
    DisabledBecause,
    ParkedBecause,
)
from streams.serde.records import Call, PayloadRef

DeliveryKind = Literal["event", "job", "callback", "test", "notice"]
CommandKind = Literal["retry", "recover", "test"]
RETRY: Final = "retry"
RECOVER: Final = "recover"
TEST: Final = "test"
"""The kind of a delivery, and of the command that makes it."""
MessageFormat = Literal["cloudevents", "raw", "mapped"]


@dataclass(frozen=True, slots=True)
class Delivery:
    delivery_id: str
    tenant_id: str
    endpoint_id: str
    message_id: str
    kind: DeliveryKind
    type: str
    source: str
    event_id: str | None
    job_id: str | None
    status: DeliveryStatus
    attempts: int
    round: int
    next_attempt_at: int | None
    parked_because: ParkedBecause | None
    last_status: int | None
    last_error: str | None
    lane: str | None
    order: int
    url: str | None
    format: MessageFormat
    mapping: str | None
    command_id: str | None
    traceparent: str | None
    created_at: int
    updated_at: int

    @property
    def is_test(self) -> bool:
        """Whether a person asked for it as a sample: it is sent whatever its endpoint's state."""
        return self.kind == TEST


@dataclass(frozen=True, slots=True)
class Outgoing:
    message_id: str
    tenant_id: str
    kind: DeliveryKind
    type: str
    source: str
    subject: str | None
    time: int
    content_type: str
    event_id: str | None
    job_id: str | None
    payload_ref: PayloadRef | None
    data: bytes | None = field(repr=False)
    attributes: dict[str, str]
    traceparent: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    delivery_id: str
    tenant_id: str
    endpoint_id: str
    message_id: str
    attempt: int
    at: int
    duration_ms: int
    address: str | None
    status: int | None
    error: str | None
    detail: str
    excerpt: str
    next_attempt_at: int | None


@dataclass(frozen=True, slots=True)
class DeliveryCommand:
    command_id: str
    tenant_id: str
    endpoint_id: str
    kind: CommandKind
    delivery_id: str | None
    since: int | None
    until: int | None
    statuses: tuple[str, ...]
    sample: str | None
    submitted_by: str | None
    at: int
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    command_id: str
    since: int
    until: int
    statuses: tuple[str, ...]
    recovered: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class EndpointState:
    tenant_id: str
    endpoint_id: str
    circuit: Circuit
    open_until: int | None
    failing_since: int | None
    disabled_because: DisabledBecause | None
    disabled_at: int | None
    recovery: Recovery | None
    updated_at: int
