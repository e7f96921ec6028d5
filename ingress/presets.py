"""What each scheme's sender puts where: JMESPath over the JSON body, as data.

A body is signed, headers are not: apart from GitHub's event name and a delivery's id, which
stand nowhere else, nothing is read from a header, and neither takes part in the fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Preset:
    """Expressions for the normalized fields; None leaves the field to its fallback.

    `type_prefix` is cut off the event type; `type_header` names the header that an event type
    begins with; `delivery_header` names the one that carries the vendor's delivery id.
    """

    event_type: str
    subject: str
    occurred_at: str
    dedup_key: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    type_prefix: str = ""
    type_header: str | None = None
    delivery_header: str | None = None


GENERIC = Preset(
    event_type="type || event_type || event",
    subject="subject || data.id",
    occurred_at="occurred_at || time || timestamp || created_at || created",
    dedup_key="id || event_id",
)
"""Covers CloudEvents in structured mode and what most vendors' bodies look like."""

GITHUB = Preset(
    event_type="action",
    subject="repository.full_name",
    occurred_at="head_commit.timestamp",
    dedup_key=None,
    attributes={
        "action": "action",
        "number": "pull_request.number || issue.number || discussion.number || number",
        "organization": "organization.login",
        "ref": "ref",
        "repository": "repository.full_name",
        "sender": "sender.login",
    },
    type_header="X-GitHub-Event",
    delivery_header="X-GitHub-Delivery",
)
"""https://docs.github.com/en/webhooks/webhook-events-and-payloads: no body has an event id."""

ZENDESK = Preset(
    event_type="type",
    subject="detail.id",
    occurred_at="time",
    dedup_key="id || [type, detail.id, detail.updated_at]",
    attributes={
        "account_id": "account_id",
        "priority": "detail.priority",
        "requester_id": "detail.requester_id",
        "resource": "subject",
        "status": "detail.status",
        "updated_at": "detail.updated_at",
    },
    type_prefix="zen:event-type:",
    delivery_header="X-Zendesk-Webhook-Invocation-Id",
)
"""https://developer.zendesk.com/api-reference/webhooks/event-types/webhook-event-types/"""

PRESETS: Mapping[str, Preset] = {"github": GITHUB, "zendesk": ZENDESK, "hmac-sha256": GENERIC}
