"""`standard-webhooks`: https://github.com/standard-webhooks/standard-webhooks, also named `svix-*`.

`webhook-signature` lists signatures of `id.timestamp.body`, separated by spaces: `v1,<base64>` is
HMAC-SHA256 under a `whsec_` secret, `v1a,<base64>` is Ed25519 under a `whpk_` public key. One
signature that holds under one of the source's secrets suffices; a public key is never used as an
HMAC key.
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ingress.schemes.elliptic_keys import ed25519_private_key, point
from ingress.schemes.keys import bad_secret, from_base64
from ingress.schemes.preset import Preset
from ingress.schemes.request import (
    SignedRequest,
    Verified,
    ed25519_holds,
    ed25519_signature,
    encoded,
    fresh,
    header,
    hmac_holds,
    holding_key,
    raw,
    require,
    with_headers,
)
from ingress.schemes.scheme import Scheme
from streams.errors import SignatureError

_TOLERANCE_SECONDS = 300
_MOST_SIGNATURES = {"v1": 16, "v1a": 4}
"""The most signatures of one kind that are tried from one header. Each `v1a` costs a computation of
its own, and a stranger's list must not cost more than a sender's."""


@dataclass(frozen=True, slots=True)
class StandardKey:
    """A key of Standard Webhooks: of HMAC (`v1`), or the public one of Ed25519 (`v1a`)."""

    version: Literal["v1", "v1a"]
    raw: bytes = field(repr=False)


def standard_webhooks_key(secret: bytes) -> StandardKey:
    """A secret in base64 after `whsec_` (or nothing), a public key in base64 after `whpk_`.

    Raises:
        SignatureError: the secret is neither.
    """
    if secret.startswith(b"whpk_"):
        fault = "begins with whpk_, which marks a public key of Ed25519, but is not base64 after it"
        return StandardKey("v1a", point(from_base64(secret[5:], fault)))
    if secret.startswith(b"whsk_"):
        raise bad_secret("is the sender's private key: give the public one, whpk_")
    key = from_base64(secret.removeprefix(b"whsec_"), "is not base64 after whsec_")
    if not key:
        raise bad_secret("is empty after whsec_")
    return StandardKey("v1", key)


def check(secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    family = "svix" if header(request, "webhook-signature") is None else "webhook"
    message_id = header(request, f"{family}-id")
    sent_at = header(request, f"{family}-timestamp")
    given = header(request, f"{family}-signature")
    listed = [token.partition(",") for token in (given or "").split(" ")]
    message = b".".join((raw(message_id or ""), raw(sent_at or ""), request.body))
    held = holding_key(secrets, lambda secret: _holds(secret, message, listed))
    well_formed = any(version in _MOST_SIGNATURES for version, _, _ in listed)
    key_index = require(held, given, f"{family}-signature", well_formed=well_formed)
    if not message_id:
        raise SignatureError("missing_header", f"the request has no {family}-id header")
    if not message_id.isascii():  # the spec's ids are ASCII; a record cannot hold non-Unicode
        raise SignatureError("bad_format", f"the {family}-id header is no ASCII")
    at = fresh(sent_at, request, _TOLERANCE_SECONDS, f"{family}-timestamp")
    return Verified(key_index, at, message_id)


def _holds(secret: bytes, message: bytes, listed: list[tuple[str, str, str]]) -> bool:
    key = standard_webhooks_key(secret)
    of_its_kind = [text for version, _, text in listed if version == key.version]
    signatures = of_its_kind[: _MOST_SIGNATURES[key.version]]
    if key.version == "v1a":
        return ed25519_holds(key.raw, message, signatures, "base64")
    return hmac_holds(key.raw, message, signatures, "base64")


def sign(secret: bytes, request: SignedRequest) -> SignedRequest:
    """Sign one request under a `whsec_` secret or a `whsk_` private key.

    A `webhook-id` that the request has already is kept, because it is the same for every attempt.
    """
    message_id = header(request, "webhook-id") or f"msg_{uuid.uuid4().hex}"
    at = str(int(request.now))
    message = b".".join((raw(message_id), raw(at), request.body))
    if secret.startswith(b"whsk_"):
        private_key = ed25519_private_key(secret.removeprefix(b"whsk_"))
        signature = "v1a," + ed25519_signature(private_key, message, "base64")
    else:
        key = standard_webhooks_key(secret)
        if key.version == "v1a":
            raise SignatureError(
                "bad_secret", "is a public key (whpk_): only the sender's private key (whsk_) signs"
            )
        signature = "v1," + encoded(hmac.digest(key.raw, message, "sha256"), "base64")
    signed = {"webhook-id": message_id, "webhook-timestamp": at, "webhook-signature": signature}
    return with_headers(request, signed)


PRESET = Preset(
    event_type="type || event_type || event",
    subject="data.id || subject",
    occurred_at="timestamp || created_at || occurred_at || created",
    dedup_key="type && data && (id || event_id)",
    attributes={"object": "data.object"},
)
"""https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

An id beside `type` and `data` is the event's; any other may be an entity's. Without it the key
is `webhook-id`, which is signed and stays the same when a message is sent again.
"""

SCHEME = Scheme(PRESET, lambda _: check, lambda _: sign, decode_secret=standard_webhooks_key)
