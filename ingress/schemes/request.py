"""The parts that every scheme uses: a request as it was signed, and constant-time comparison."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256

from ingress.formats.timestamps import parse_timestamp
from streams.errors import SignatureError

Digest = Literal["sha256", "sha1", "sha512"]
Encoding = Literal["hex", "base64"]

_NO_SIGNATURE = bytes(64)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request whose raw body has been read; nothing in it is trusted yet.

    `now` is in seconds since the epoch; `url` is absolute, as the sender addressed it.
    """

    headers: Mapping[str, str]
    body: bytes
    url: str
    method: str
    now: float


@dataclass(frozen=True, slots=True)
class Verified:
    """A signature that holds, with the secret it holds under (0 is the newest) and its time.

    `timestamp` is in seconds since the epoch, None for a scheme that signs none. `message_id` is
    the sender's id of the message, where the scheme signs a header that carries one.
    """

    key_index: int
    timestamp: float | None
    message_id: str | None = None


Verifier = Callable[[Sequence[bytes], SignedRequest], Verified]
"""A scheme with its options: verifies a request under secrets (newest first).

Raises:
    SignatureError: the only exception, whatever the request carries.
"""


Signer = Callable[[bytes, SignedRequest], SignedRequest]
"""A scheme with its options: the request with the headers that its sender adds under a secret.

A sender that signs a time or a hash in the body or the URL has set it there too.

Raises:
    SignatureError: the scheme cannot sign with this secret, or cannot sign this body.
"""


def with_headers(request: SignedRequest, headers: Mapping[str, str]) -> SignedRequest:
    """The request with these headers instead of its own of the same names, in whatever case.

    A header that came twice would count as not sent.
    """
    named = {name.lower() for name in headers}
    others = {name: value for name, value in request.headers.items() if name.lower() not in named}
    return replace(request, headers={**others, **headers})


def header(request: SignedRequest, name: str) -> str | None:
    """The value of a header, whose name may be in any case; None if the request lacks it."""
    value = request.headers.get(name)
    if value is not None:
        return value
    lowered = name.lower()
    return next((v for k, v in request.headers.items() if k.lower() == lowered), None)


def raw(text: str) -> bytes:
    """A header's text as bytes, even if it is not Unicode."""
    return text.encode("utf-8", "surrogatepass")


def holding_key(secrets: Sequence[bytes], holds: Callable[[bytes], bool]) -> int | None:
    """Index of the first secret under which the signature holds.

    All secrets are tried, so that the time taken does not reveal which one held. An empty secret is
    refused, because anybody could sign with it.

    Raises:
        SignatureError: there is no secret to try, or one is empty.
    """
    if not secrets or not all(secrets):
        raise SignatureError("no_secret", "the source has no secret, or an empty one")
    found = None
    for index, secret in enumerate(secrets):
        held = holds(secret)
        found = index if held and found is None else found
    return found


def hmac_holds(
    secret: bytes,
    message: bytes,
    signatures: Sequence[str],
    encoding: Encoding = "hex",
    digest: Digest = "sha256",
) -> bool:
    """Whether one of the signatures is the message's HMAC under this secret."""
    expected = encoded(hmac.digest(secret, message, digest), encoding).encode()
    held = False
    for text in signatures or ("",):
        given = raw(text.lower() if encoding == "hex" else text)
        held |= hmac.compare_digest(expected, given)
    return held


def ed25519_signature(private_key: bytes, message: bytes, encoding: Encoding) -> str:
    """The message's signature under a private key of 32 bytes (RFC 8032)."""
    return encoded(Ed25519PrivateKey.from_private_bytes(private_key).sign(message), encoding)


def encoded(signature: bytes, encoding: Encoding) -> str:
    """A signature as text."""
    return signature.hex() if encoding == "hex" else base64.b64encode(signature).decode()


def ed25519_holds(
    public_key: bytes, message: bytes, signatures: Sequence[str], encoding: Encoding
) -> bool:
    """Whether one of the signatures is the message's under this key of 32 bytes (RFC 8032).

    A value that is no signature of 64 bytes is checked all the same, so that it takes as long.
    """
    key = Ed25519PublicKey.from_public_bytes(public_key)
    held = False
    for text in signatures or ("",):
        signature = _decoded(text, encoding)
        try:
            key.verify(signature if len(signature) == 64 else _NO_SIGNATURE, message)
        except InvalidSignature:
            continue
        held |= len(signature) == 64
    return held


def ecdsa_signature(
    private_key: EllipticCurvePrivateKey, message: bytes, encoding: Encoding
) -> str:
    """The message's ECDSA signature with SHA-256, in the form of RFC 3279."""
    return encoded(private_key.sign(message, ECDSA(SHA256())), encoding)


def ecdsa_holds(
    public_key: EllipticCurvePublicKey,
    message: bytes,
    signatures: Sequence[str],
    encoding: Encoding,
) -> bool:
    """Whether one of the signatures is the message's: ECDSA with SHA-256."""
    held = False
    for text in signatures or ("",):
        try:
            public_key.verify(_decoded(text, encoding), message, ECDSA(SHA256()))
        except InvalidSignature:
            continue
        held = True
    return held


def fresh(sent_at: str | None, request: SignedRequest, tolerance: float, name: str) -> float:
    """The signing time in seconds; `name` says where it is, `tolerance` applies both ways.

    Raises:
        SignatureError: the time is missing, malformed, or too far from now.
    """
    if sent_at is None:
        raise SignatureError("missing_header", f"the request has no {name}")
    seconds = parse_timestamp(sent_at)
    if seconds is None:
        raise SignatureError("bad_timestamp", f"{name} holds no time")
    if abs(request.now - seconds) > tolerance:
        raise SignatureError("stale", "the signature's time is outside the tolerance")
    return seconds


def require(held: int | None, given: str | None, name: str, *, well_formed: bool = True) -> int:
    """The index of the secret that held, or the reason why none did.

    Raises:
        SignatureError: the header is missing, is not built as it should be, or does not match.
    """
    if given is None:
        raise SignatureError("missing_header", f"the request has no {name} header")
    if not well_formed:
        raise SignatureError("bad_format", f"{name} is not built as it should be")
    if held is None:
        raise SignatureError("mismatch", "the signature is of none of the source's secrets")
    return held


def _decoded(text: str, encoding: Encoding) -> bytes:
    try:
        if encoding == "hex":
            return binascii.unhexlify(text)
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
