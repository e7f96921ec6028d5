"""The form of a webhook between its verification and its storage."""

from __future__ import annotations

from dataclasses import dataclass

from ingress.schemes.normalize import Normalized
from streams.serde import ids
from streams.serde.records import Envelope, PayloadRef
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a request that are kept beside its body; `received_at` in milliseconds."""

    content_type: str
    request_id: str | None
    traceparent: str
    received_at: int


_UNSTORED = PayloadRef(0, (), 0, "")


@dataclass(frozen=True, slots=True)
class Event:
    """A delivery whose signature held, about to be stored; `envelope` does not refer to it yet.

    `job_id` and `job_type` are None if no route gives it a job.
    """

    envelope: Envelope
    job_id: str | None
    job_type: str | None
    traceparent: str
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
    """The event of a body, with the job that its route gives it; `event_id` is new unless given.

    An event has no job if no route matches it, or if its route only cancels.
    """
    route = topology.route(source, normalized.event_type)
    key = (tenant_id, source, normalized.dedup_key)
    envelope = Envelope(
        fingerprint=ids.fingerprint(*key),
        event_id=event_id or ids.new_id("evt"),
        source=source,
        tenant_id=tenant_id,
        event_type=normalized.event_type,
        occurred_at=normalized.occurred_at,
        received_at=facts.received_at,
        payload_hash=normalized.payload_hash,
        dedup_key=normalized.dedup_key,
        subject=normalized.subject,
        content_type=facts.content_type,
        delivery_id=normalized.delivery_id,
        request_id=facts.request_id,
        payload_ref=_UNSTORED,
        attributes=normalized.attributes,
        priority=route.priority_of(normalized) if route else topology.default_priority,
        callback_url=callback_url,
        routed=route is not None,
    )
    job_type = (route.job or None) if route else None
    job_id = ids.event_job_id(*key) if job_type else None
    return Event(envelope, job_id, job_type, facts.traceparent, body)
