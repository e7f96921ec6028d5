"""Signs messages as Standard Webhooks does, with the code that verifies them at the ingress.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import re
import secrets as random
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ingress.schemes.elliptic_keys import ed25519_private_key
from ingress.schemes.request import SignedRequest
from ingress.schemes.standard_webhooks import sign, standard_webhooks_key
from streams.errors import SignatureError

_LEAST_KEY_BYTES, _MOST_KEY_BYTES = 24, 64
_NEW_KEY_BYTES = 32
_MESSAGE_ID = re.compile(r"[!-\-/-~]+")
"""Visible ASCII without a full stop. The spec forbids the stop, because it separates the signed
parts: with it, one signature would hold for two different messages."""


def new_secret() -> str:
    """A new HMAC secret: `whsec_` and 32 random bytes in base64."""
    return f"whsec_{_base64(random.token_bytes(_NEW_KEY_BYTES))}"


def new_key_pair() -> tuple[str, str]:
    """A new Ed25519 key pair: `whsk_`, which signs, and `whpk_`, which receivers verify with.

    The public key follows the private one inside `whsk_`, as Svix expects it.
    """
    key = Ed25519PrivateKey.generate()
    point = key.public_key().public_bytes_raw()
    return f"whsk_{_base64(key.private_bytes_raw() + point)}", f"whpk_{_base64(point)}"


def check_signing_secret(secret: bytes) -> None:
    """Return if messages can be signed with this secret: a `whsec_` one or a `whsk_` key.

    Raises:
        SignatureError: it is neither, or its key is not of the length that the spec demands. The
            message repeats nothing of the secret.
    """
    if secret.startswith(b"whsk_"):
        _point(secret)
        return
    if not secret.startswith((b"whsec_", b"whpk_")):
        raise _bad("must begin with whsec_ or whsk_: leave it out to have one made")
    key = standard_webhooks_key(secret)
    if key.version == "v1a":
        raise _bad("is a public key: give the whsk_ key that signs, or a whsec_ secret")
    if not _LEAST_KEY_BYTES <= len(key.raw) <= _MOST_KEY_BYTES:
        wanted = f"Standard Webhooks takes {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES}"
        raise _bad(f"has {len(key.raw)} bytes of key after whsec_: {wanted}")


def public_key(secret: bytes) -> str | None:
    """The `whpk_` key with which receivers verify what a `whsk_` key signs; None for `whsec_`.

    Raises:
        SignatureError: messages cannot be signed with this secret.
    """
    check_signing_secret(secret)
    return f"whpk_{_base64(_point(secret))}" if secret.startswith(b"whsk_") else None


def headers(message_id: str, at: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The three `webhook-*` headers of an attempt at the time `at`, in milliseconds.

    `webhook-signature` has one entry for each secret, in their order: newest first.

    Raises:
        SignatureError: there is no secret, one of them cannot sign, or the id is empty or has
            characters other than visible ASCII without a full stop.
    """
    if not _MESSAGE_ID.fullmatch(message_id):
        text = f"the message id {message_id!r} is not visible ASCII without a full stop"
        raise SignatureError("bad_message_id", text)
    if not secrets:
        raise SignatureError("no_secret", "the endpoint has no secret: rotate it to get one")
    request = SignedRequest({"webhook-id": message_id}, body, "", "POST", at // 1000)
    signatures = [_signature(secret, request) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at // 1000),
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: bytes, request: SignedRequest) -> str:
    check_signing_secret(secret)
    return sign(secret, request).headers["webhook-signature"]


def _point(secret: bytes) -> bytes:
    """The public key of a `whsk_` key: 32 bytes."""
    encoded = secret.removeprefix(b"whsk_")
    private = ed25519_private_key(encoded)
    point = Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    if encoded not in (_base64(private).encode(), _base64(private + point).encode()):
        raise _bad("is no private key in base64 after whsk_, alone or before its own public key")
    return point


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bad(text: str) -> SignatureError:
    return SignatureError("bad_secret", text)
