"""`pagerduty`: `X-PagerDuty-Signature: v1=<hex>[,v1=<hex>]`, HMAC-SHA256 over the body."""

from __future__ import annotations

from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.preset import Preset

LAYOUT = Layout(header="X-PagerDuty-Signature", prefix="v1=", separator=",")
"""https://developer.pagerduty.com/docs/verifying-webhook-signatures"""

PRESET = Preset(
    event_type="event.event_type",
    subject="event.data.incident.id || event.data.id",
    occurred_at="event.occurred_at",
    dedup_key="event.id",
    attributes={
        "resource_type": "event.resource_type",
        "service": "event.data.service.id",
        "status": "event.data.status",
        "urgency": "event.data.urgency",
    },
    delivery_header="X-Webhook-Id",
)
"""https://developer.pagerduty.com/docs/webhooks-overview"""


SCHEME = laid_out(LAYOUT, PRESET)
