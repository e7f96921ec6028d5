"""`stripe`: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>]`, HMAC-SHA256 over `t.body`."""

from __future__ import annotations

from ingress.schemes.layout import TIME_DOT_BODY, Layout, laid_out
from ingress.schemes.preset import Preset

LAYOUT = Layout(
    header="Stripe-Signature",
    prefix="v1=",
    signed=TIME_DOT_BODY,
    separator=",",
    timestamp_prefix="t=",
)
"""https://docs.stripe.com/webhooks/signature

The key is the whole secret, including `whsec_`. While Stripe rolls a secret, the header carries one
`v1` for each secret.
"""

PRESET = Preset(
    event_type="type",
    subject="data.object.id || related_object.id",
    occurred_at="created",
    dedup_key="type && (data || related_object) && id",
    attributes={
        "account": "account || context",
        "api_version": "api_version",
        "livemode": "livemode",
        "object": "data.object.object || related_object.type",
        "status": "data.object.status",
    },
)
"""https://docs.stripe.com/api/events/object; thin events: https://docs.stripe.com/event-destinations"""

SCHEME = laid_out(LAYOUT, PRESET)
