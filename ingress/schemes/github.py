"""`github`: `X-Hub-Signature-256: sha256=<hex>`, HMAC-SHA256 over the body."""

from __future__ import annotations

from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.preset import Preset

LAYOUT = Layout(header="X-Hub-Signature-256", prefix="sha256=")
"""https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries

GitHub signs no time, so an old delivery verifies for ever, and only dedup stops its replay. The
same holds for every layout here without a timestamp.
"""

PRESET = Preset(
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
    form="payload",
    may_be_empty=True,
)
"""https://docs.github.com/en/webhooks/webhook-events-and-payloads: no body has an event id.

A webhook of the content type `application/x-www-form-urlencoded` sends the same JSON as the form's
only field, `payload`; the signature covers the form as it was sent:
https://docs.github.com/en/webhooks/using-webhooks/creating-webhooks.
"""


SCHEME = laid_out(LAYOUT, PRESET)
