"""`zendesk`: `X-Zendesk-Webhook-Signature: <base64>`, HMAC-SHA256 over `timestamp` and body."""

from __future__ import annotations

from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.options import ToleranceOptions
from ingress.schemes.preset import Preset

LAYOUT = Layout(
    header="X-Zendesk-Webhook-Signature",
    encoding="base64",
    signed=("", "timestamp", "", "body", ""),
    timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
    clock="iso",
)
"""https://developer.zendesk.com/documentation/webhooks/verifying/

The secret is used as the text that Zendesk shows, not decoded; the body may be empty.
"""

PRESET = Preset(
    event_type="type",
    subject="detail.id",
    occurred_at="time",
    dedup_key=(
        "starts_with(type, 'zen:event-type:') && detail"
        " && (id || [type, detail.id, detail.updated_at])"
    ),
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
    may_be_empty=True,
)
"""https://developer.zendesk.com/api-reference/webhooks/event-types/webhook-event-types/

Only an event that Zendesk itself describes has an id of its own. The body of a trigger or an
automation is its administrator's, and an `id` in it is usually the ticket's:
https://developer.zendesk.com/documentation/webhooks/creating-and-monitoring-webhooks/.
"""


SCHEME = laid_out(LAYOUT, PRESET, options=ToleranceOptions)
