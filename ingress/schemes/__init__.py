"""Signing schemes of incoming webhooks, checked over the raw bytes of the body."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingress.schemes import jwt, linear, standard_webhooks, stripe, template, twilio, vendors
from ingress.schemes.request import SignedRequest, Verified, Verifier
from streams.errors import SignatureError
from streams.tenants.signature_options import OPTIONS, parse

__all__ = ["SCHEMES", "SignedRequest", "Verified", "Verifier", "verifier", "verify"]

SCHEMES: Mapping[str, Callable[[Any], Verifier]] = {
    "standard-webhooks": lambda _: standard_webhooks.check,
    "stripe": lambda _: stripe.check,
    "github": vendors.by_mac(vendors.GITHUB),
    "shopify": vendors.by_mac(vendors.SHOPIFY),
    "slack": vendors.by_mac(vendors.SLACK),
    "zendesk": vendors.by_mac(vendors.ZENDESK),
    "twilio": lambda _: twilio.check,
    "discord": vendors.discord,
    "intercom": vendors.by_mac(vendors.INTERCOM),
    "linear": lambda _: linear.verify,
    "pagerduty": vendors.by_mac(vendors.PAGERDUTY),
    "hmac-sha256": template.hmac_sha256,
    "ed25519": template.ed25519,
    "jwt": jwt.verifier,
}
"""What makes a verifier of a scheme's parsed options."""


def verifier(scheme: str, options: Mapping[str, Any]) -> Verifier:
    """A scheme under a source's options, ready to verify many requests.

    Raises:
        SignatureError: no such scheme, or an option does not fit it.
    """
    if scheme not in SCHEMES:
        raise SignatureError("unknown_scheme", f"no such scheme: use one of {', '.join(SCHEMES)}")
    return SCHEMES[scheme](parse(OPTIONS[scheme], options))


def verify(
    scheme: str,
    secrets: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str = "",
    method: str = "POST",
    now: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Verified:
    """Verify one request: header names in any case, `secrets` newest first, `now` in seconds.

    Raises:
        SignatureError: and nothing else.
    """
    request = SignedRequest(headers, body, url, method, time.time() if now is None else now)
    return verifier(scheme, options or {})(secrets, request)
