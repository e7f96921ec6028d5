"""`linear`: `Linear-Signature: <hex>`, HMAC-SHA256 over the body, which holds its own time.

https://linear.app/developers/webhooks#securing-webhooks: `webhookTimestamp`, in milliseconds, is
within a minute of now. It is read only once the MAC holds: nothing unsigned is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingress.receive.document import json_document
from ingress.schemes.request import SignedRequest, Verified, fresh
from ingress.schemes.template import Layout, check
from streams.errors import Misfit, SignatureError

LAYOUT = Layout(header="Linear-Signature")
_TOLERANCE_SECONDS = 60


def verify(secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    held = check(LAYOUT, secrets, request)
    sent_at = _sent_at(request.body)
    return Verified(held.key_index, fresh(sent_at, request, _TOLERANCE_SECONDS, "webhookTimestamp"))


def _sent_at(body: bytes) -> str | None:
    try:
        document = json_document(body)
    except Misfit:
        raise SignatureError("bad_timestamp", "no time can be read from the body") from None
    value = document.get("webhookTimestamp") if isinstance(document, dict) else None
    return None if value is None else str(value)
