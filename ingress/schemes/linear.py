"""`linear`: `Linear-Signature: <hex>`, HMAC-SHA256 over the body, which holds its own time.

https://linear.app/developers/webhooks#securing-webhooks: `webhookTimestamp`, in milliseconds, must
be within a minute of now. It is read only after the MAC holds, so that nothing unsigned is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingress.formats.document import json_document
from ingress.schemes.layout import Layout, check
from ingress.schemes.layout import sign as sign_by_layout
from ingress.schemes.preset import Preset
from ingress.schemes.request import SignedRequest, Verified, fresh
from ingress.schemes.scheme import OK, Scheme
from streams import user_json
from streams.errors import Misfit, SignatureError

LAYOUT = Layout(header="Linear-Signature")
_TOLERANCE_SECONDS = 60


def verify(secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    held = check(LAYOUT, secrets, request)
    sent_at = _sent_at(request.body)
    return Verified(held.key_index, fresh(sent_at, request, _TOLERANCE_SECONDS, "webhookTimestamp"))


def sign(secret: bytes, request: SignedRequest) -> SignedRequest:
    """Sign the body with its `webhookTimestamp` set to now."""
    try:
        document = json_document(request.body)
    except Misfit as error:
        raise SignatureError("bad_format", f"Linear signs JSON alone: {error}") from None
    if not isinstance(document, dict):
        raise SignatureError("bad_format", "Linear signs a JSON object alone")
    try:
        stamped = user_json.write({**document, "webhookTimestamp": int(request.now * 1000)})
    except TypeError as error:
        raise SignatureError("bad_format", f"the body cannot be stamped: {error}") from None
    return sign_by_layout(LAYOUT, secret, replace(request, body=stamped))


def _sent_at(body: bytes) -> str | None:
    try:
        document = json_document(body)
    except Misfit:
        raise SignatureError("bad_timestamp", "no time can be read from the body") from None
    value = document.get("webhookTimestamp") if isinstance(document, dict) else None
    return None if value is None else str(value)


PRESET = Preset(
    event_type="[type, action]",
    subject="data.id || agentSession.id || notification.id",
    occurred_at="createdAt",
    dedup_key=(
        "[type, action, data.id || agentSession.id || notification.id,"
        " data.updatedAt || createdAt, createdAt || data.updatedAt]"
    ),
    attributes={
        "action": "action",
        "actor": "actor.id",
        "identifier": "data.identifier",
        "organization": "organizationId",
        "team": "data.teamId || data.team.id",
    },
    delivery_header="Linear-Delivery",
)
"""https://linear.app/developers/webhooks: `webhookId` is the webhook's and not the event's. An
entity's `updatedAt` changes only with a meaningful change, so the action's own time is part of the
key."""

SCHEME = Scheme(PRESET, lambda _: verify, lambda _: sign, success=OK)
