"""`stripe`: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>]`, HMAC-SHA256 over `t.body`.

https://docs.stripe.com/webhooks/signature. The key is the whole secret, including `whsec_`. While
Stripe rolls a secret, the header carries one `v1` for each secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from ingress.schemes.preset import Preset
from ingress.schemes.request import (
    SignedRequest,
    Verified,
    fresh,
    header,
    hmac_holds,
    holding_key,
    raw,
    require,
    with_headers,
)
from ingress.schemes.scheme import Scheme

HEADER = "Stripe-Signature"
_TOLERANCE_SECONDS = 300


def check(secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    given = header(request, HEADER)
    parts = [part.strip().partition("=") for part in (given or "").split(",")]
    sent_at = next((value for name, _, value in parts if name == "t"), None)
    signatures = [value for name, _, value in parts if name == "v1"]
    message = raw(sent_at or "") + b"." + request.body
    held = holding_key(secrets, lambda secret: hmac_holds(secret, message, signatures))
    well_formed = sent_at is not None and bool(signatures)
    key_index = require(held, given, HEADER, well_formed=well_formed)
    return Verified(key_index, fresh(sent_at, request, _TOLERANCE_SECONDS, f"t in {HEADER}"))


def sign(secret: bytes, request: SignedRequest) -> SignedRequest:
    """Sign one request, at its `now`."""
    at = int(request.now)
    mac = hmac.digest(secret, b"%d." % at + request.body, "sha256")
    return with_headers(request, {HEADER: f"t={at},v1={mac.hex()}"})


PRESET = Preset(
    event_type="type",
    subject="data.object.id || related_object.id",
    occurred_at="created",
    dedup_key="id",
    attributes={
        "account": "account || context",
        "api_version": "api_version",
        "livemode": "livemode",
        "object": "data.object.object || related_object.type",
        "status": "data.object.status",
    },
)
"""https://docs.stripe.com/api/events/object; thin events: https://docs.stripe.com/event-destinations"""

SCHEME = Scheme(PRESET, lambda _: check, lambda _: sign)
