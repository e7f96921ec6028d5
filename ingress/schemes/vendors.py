"""Vendors whose scheme is a template of its own: where they put what, each from its own page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ingress.schemes.request import Verifier
from ingress.schemes.template import Layout, by_ed25519, by_hmac, check
from streams.tenants.signature_options import SchemeOptions

_THEN_BODY = ("", "timestamp", "", "body", "")

GITHUB = Layout(header="X-Hub-Signature-256", prefix="sha256=")
"""https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries

It signs no time, so an old delivery verifies for ever: dedup is what stops its replay. So it is
with every layout here without a timestamp.
"""

SHOPIFY = Layout(header="X-Shopify-Hmac-SHA256", encoding="base64")
"""https://shopify.dev/docs/apps/build/webhooks/subscribe/https"""

SLACK = Layout(
    header="X-Slack-Signature",
    prefix="v0=",
    signed=("v0:", "timestamp", ":", "body", ""),
    timestamp_header="X-Slack-Request-Timestamp",
)
"""https://docs.slack.dev/authentication/verifying-requests-from-slack"""

ZENDESK = Layout(
    header="X-Zendesk-Webhook-Signature",
    encoding="base64",
    signed=_THEN_BODY,
    timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
)
"""https://developer.zendesk.com/documentation/webhooks/verifying/

The secret is used as the text that Zendesk shows, not decoded; the body may be empty.
"""

INTERCOM = Layout(header="X-Hub-Signature", prefix="sha1=", digest="sha1")
"""https://developers.intercom.com/docs/webhooks/webhook-notifications"""

PAGERDUTY = Layout(header="X-PagerDuty-Signature", prefix="v1=", separator=",")
"""https://developer.pagerduty.com/docs/verifying-webhook-signatures"""

DISCORD = Layout(
    header="X-Signature-Ed25519",
    signed=_THEN_BODY,
    timestamp_header="X-Signature-Timestamp",
)
"""https://docs.discord.com/developers/interactions/overview#setting-up-an-endpoint

Discord demands no bound on the timestamp's age; the other vendors' five minutes serve here too.
"""


def by_mac(layout: Layout) -> Callable[[SchemeOptions], Verifier]:
    """The scheme of a vendor that signs with HMAC; its options override fields of the layout."""
    return lambda options: partial(check, replace(layout, **options.model_dump()), holds=by_hmac)


def discord(options: SchemeOptions) -> Verifier:
    """`discord`: Ed25519 under the application's public key; it has no options."""
    return partial(check, DISCORD, holds=by_ed25519)
