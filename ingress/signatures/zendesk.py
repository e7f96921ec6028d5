"""`zendesk`: base64 of HMAC-SHA256 over timestamp and body, under the webhook's signing secret.

https://developer.zendesk.com/documentation/webhooks/verifying/
The secret is used as the text that Zendesk shows, not decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ingress.signatures.hmac_sha256 import Layout, check
from ingress.signatures.request import Verifier
from streams.signature_options import ZendeskOptions, parse


def verifier(options: Mapping[str, Any]) -> Verifier:
    """The scheme; raises `SignatureError` for an unknown or wrong option."""
    layout = Layout(
        header="X-Zendesk-Webhook-Signature",
        encoding="base64",
        signed=("", "timestamp", "", "body", ""),
        timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
        tolerance_seconds=parse(ZendeskOptions, options).tolerance_seconds,
    )
    return partial(check, layout)
