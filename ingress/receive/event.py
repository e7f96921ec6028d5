"""The form of a webhook between its verification and its storage."""

from __future__ import annotations

from dataclasses import dataclass

from ingress.schemes.normalize import Normalized
from streams.serde import ids
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a request that are kept beside its body; `received_at` in milliseconds."""

    content_type: str
    request_id: str | None
    traceparent: str
    received_at: int


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
    callback_url: str | None
    body: bytes


def routed(
    topology: Topology,
    tenant_id: str,
    source: str,
    normalized: Normalized,
    facts: Facts,
    body: bytes,
    *,
    callback_url: str | None,
    event_id: str | None = None,
) -> Event:
    """The event of a body, with the job that its route gives it; `event_id` is new unless given."""
    route = topology.route(source, normalized.event_type)
    key = (tenant_id, source, normalized.dedup_key)
    return Event(
        event_id=event_id or ids.new_id("evt"),
        fingerprint=ids.fingerprint(*key),
        job_id=ids.event_job_id(*key) if route else None,
        tenant_id=tenant_id,
        source=source,
        normalized=normalized,
        received_at=facts.received_at,
        content_type=facts.content_type,
        request_id=facts.request_id,
        traceparent=facts.traceparent,
        priority=route.priority if route else topology.default_priority,
        callback_url=callback_url,
        body=body,
    )
