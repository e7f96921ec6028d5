"""`zendesk`: base64 of HMAC-SHA256 over timestamp and body, under the webhook's signing secret.

https://developer.zendesk.com/documentation/webhooks/verifying/
The secret is used as the text that Zendesk shows, not decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field

from ingress.signatures.hmac_sha256 import Layout, check
from ingress.signatures.options import SchemeOptions, parse
from ingress.signatures.request import Verifier


class Options(SchemeOptions):
    """`tolerance_seconds`: how far the signature's time may be from now, both ways."""

    tolerance_seconds: float = Field(default=300, gt=0)


def verifier(options: Mapping[str, Any]) -> Verifier:
    """The scheme; raises `SignatureError` for an unknown or wrong option."""
    layout = Layout(
        header="X-Zendesk-Webhook-Signature",
        encoding="base64",
        signed=("", "timestamp", "", "body", ""),
        timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
        tolerance_seconds=parse(Options, options).tolerance_seconds,
    )
    return partial(check, layout)
