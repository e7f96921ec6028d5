"""A webhook between its verification and its storage."""

from __future__ import annotations

from dataclasses import dataclass

from ingress.normalize import Normalized


@dataclass(frozen=True, slots=True)
class Event:
    """A delivery whose signature held, about to be stored; `received_at` in milliseconds."""

    event_id: str
    fingerprint: bytes
    job_id: str | None
    tenant_id: str
    source: str
    normalized: Normalized
    received_at: int
    content_type: str
    request_id: str | None
    traceparent: str
    priority: str
    body: bytes
