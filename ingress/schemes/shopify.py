"""`shopify`: `X-Shopify-Hmac-SHA256: <base64>`, HMAC-SHA256 over the body."""

from __future__ import annotations

from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.preset import Preset

LAYOUT = Layout(header="X-Shopify-Hmac-SHA256", encoding="base64")
"""https://shopify.dev/docs/apps/build/webhooks/subscribe/https"""

PRESET = Preset(
    event_type="`null`",
    subject="admin_graphql_api_id || id",
    occurred_at="updated_at || created_at",
    dedup_key=None,
    attributes={
        "currency": "currency",
        "financial_status": "financial_status",
        "fulfillment_status": "fulfillment_status",
        "status": "status",
        "updated_at": "updated_at",
    },
    type_header="X-Shopify-Topic",
    delivery_header="X-Shopify-Webhook-Id",
)
"""https://shopify.dev/docs/api/webhooks: a body is the entity itself, its topic is in a header.

The id in it is the entity's, and `updated_at` has whole seconds, so two changes may share both.
"""


SCHEME = laid_out(LAYOUT, PRESET)
