"""Deliveries of vendors, and what became of them at the ingress and in dedup."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PayloadRef:
    partition: int
    offsets: tuple[int, ...]
    size: int
    key_id: str


@dataclass(frozen=True, slots=True)
class EventInfo:
    event_id: str
    source: str
    event_type: str
    subject: str | None
    occurred_at: int | None
    received_at: int
    content_type: str
    delivery_id: str | None
    request_id: str | None
    dedup_key: str
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True)
class BatchedEvent:
    """One of the events of a batch, and where its body is."""

    event: EventInfo
    payload_ref: PayloadRef


@dataclass(frozen=True, slots=True)
class Envelope:
    fingerprint: bytes
    event_id: str
    source: str
    tenant_id: str
    event_type: str
    occurred_at: int | None
    received_at: int
    payload_hash: bytes
    dedup_key: str
    subject: str | None
    content_type: str
    delivery_id: str | None
    request_id: str | None
    payload_ref: PayloadRef
    attributes: dict[str, str]
    priority: str
    callback_url: str | None = None
    routed: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    tenant_id: str
    count: int
    first_at: int
    last_at: int
    last_event_id: str | None
    source: str | None = None
    event_type: str | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    event_id: str
    tenant_id: str
    source: str
    reason: str
    detail: str
    received_at: int
    payload_hash: bytes
    payload_ref: PayloadRef
    content_type: str
    request_id: str | None
    headers: dict[str, str]
    traceparent: str
    released_at: int | None = None
    note: str | None = None
    released_by: str | None = None
    job_id: str | None = None
    message_id: str | None = None
    signed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    id: str
    tenant_id: str | None
    source: str | None
    reason: str
    count: int
    first_at: int
    last_at: int
    cause: str | None


@dataclass(frozen=True, slots=True)
class RateReport:
    """One ingress process's demand, in deliveries a second, as it reports it to the others."""

    process: str
    demand: dict[str, float]
    leaving: bool
