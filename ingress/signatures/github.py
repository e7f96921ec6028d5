"""`github`: `X-Hub-Signature-256: sha256=<hex>` over the raw body.

https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
GitHub signs no time, so an old delivery verifies for ever: dedup is what stops its replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ingress.signatures.hmac_sha256 import Layout, check
from ingress.signatures.request import Verifier
from streams.signature_options import SchemeOptions, parse

LAYOUT = Layout(header="X-Hub-Signature-256", prefix="sha256=")


def verifier(options: Mapping[str, Any]) -> Verifier:
    """The scheme, which has no options; raises `SignatureError` where one is given."""
    parse(SchemeOptions, options)
    return partial(check, LAYOUT)
