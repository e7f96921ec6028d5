"""What the delivery stage writes, with a value in every field that matters."""

from __future__ import annotations

from typing import Any

from streams.serde.delivery_records import Delivery, DeliveryAttempt, EndpointState, Recovery
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import EndpointSettings, endpoint_record
from streams.vault.key_encryption import local_vault

AT = 1_700_000_000_000


def make_delivery(delivery_id: str = "dlv_a", tenant_id: str = "acme", **fields: Any) -> Delivery:
    """A delivery of an event that waits for its first attempt, to be overridden by name."""
    due = AT if fields.get("status", "pending") == "pending" else None
    given: dict[str, Any] = {
        "delivery_id": delivery_id,
        "tenant_id": tenant_id,
        "endpoint_id": "crm",
        "message_id": "evt_k1",
        "kind": "event",
        "type": "order.paid",
        "source": "shop",
        "event_id": "evt_k1",
        "job_id": None,
        "status": "pending",
        "attempts": 0,
        "round": 0,
        "next_attempt_at": due,
        "parked_because": None,
        "last_status": None,
        "last_error": None,
        "lane": None,
        "order": 1,
        "url": None,
        "format": "cloudevents",
        "mapping": None,
        "command_id": None,
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "created_at": AT,
        "updated_at": AT,
    }
    return Delivery(**(given | fields))


def make_attempt(row: Delivery, attempt: int = 1, **fields: Any) -> DeliveryAttempt:
    """A failed attempt of a delivery."""
    given: dict[str, Any] = {
        "delivery_id": row.delivery_id,
        "tenant_id": row.tenant_id,
        "endpoint_id": row.endpoint_id,
        "message_id": row.message_id,
        "attempt": attempt,
        "at": AT + attempt,
        "duration_ms": 12,
        "address": "192.0.2.7",
        "status": 503,
        "error": "http_status",
        "detail": "503 Service Unavailable",
        "excerpt": "busy",
        "next_attempt_at": AT + 5_000,
    }
    return DeliveryAttempt(**(given | fields))


def make_state(endpoint_id: str = "crm", tenant_id: str = "acme", **fields: Any) -> EndpointState:
    """The state of an endpoint that takes deliveries."""
    given: dict[str, Any] = {
        "tenant_id": tenant_id,
        "endpoint_id": endpoint_id,
        "circuit": "closed",
        "open_until": None,
        "failing_since": None,
        "disabled_because": None,
        "disabled_at": None,
        "recovery": None,
        "updated_at": AT,
    }
    return EndpointState(**(given | fields))


def make_recovery(command_id: str = "cmd_1", **fields: Any) -> Recovery:
    """A recovery that runs."""
    given: dict[str, Any] = {
        "command_id": command_id,
        "since": AT,
        "until": AT + 1_000,
        "statuses": ("parked", "dead"),
        "recovered": 3,
        "ended_at": None,
    }
    return Recovery(**(given | fields))


def make_endpoint(
    endpoint_id: str = "crm", tenant_id: str = "acme", at: int = AT, **settings: Any
) -> TenantRecord:
    """The record of an endpoint."""
    given: dict[str, Any] = {"url": "https://crm.example.com/in", "set_at": at} | settings
    made = EndpointSettings(**given)
    return endpoint_record(local_vault(b"v" * 32), tenant_id, endpoint_id, made, (), {}, at)
