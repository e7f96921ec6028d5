"""`intercom`: `X-Hub-Signature: sha1=<hex>`, HMAC-SHA1 over the body."""

from __future__ import annotations

from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.preset import Preset

LAYOUT = Layout(header="X-Hub-Signature", prefix="sha1=", digest="sha1")
"""https://developers.intercom.com/docs/webhooks/webhook-notifications"""

PRESET = Preset(
    event_type="topic",
    subject="data.item.id",
    occurred_at="created_at",
    dedup_key="topic && data && id",
    attributes={"app_id": "app_id", "item_type": "data.item.type", "state": "data.item.state"},
)
"""https://developers.intercom.com/docs/references/webhooks/webhook-models"""


SCHEME = laid_out(LAYOUT, PRESET)
