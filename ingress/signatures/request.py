"""What every scheme works on: a request as it was signed, and constant-time comparison."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streams.errors import SignatureError
from streams.signature_options import Encoding


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request whose raw body has been read and nothing else of it believed.

    `now` is in seconds since the epoch; `url` is absolute, as the sender addressed it.
    """

    headers: Mapping[str, str]
    body: bytes
    url: str
    method: str
    now: float


@dataclass(frozen=True, slots=True)
class Verified:
    """A signature that holds: under which secret (0 is the newest), and when it was made.

    `timestamp` is in seconds since the epoch, None for a scheme that signs none.
    """

    key_index: int
    timestamp: float | None


Verifier = Callable[[Sequence[bytes], SignedRequest], Verified]
"""A scheme with its options: secrets (newest first) and a request give what held.

Raises:
    SignatureError: and no other exception, whatever the request carries.
"""


def header(request: SignedRequest, name: str) -> str | None:
    """The value of a header, its name in any case; None if the request has none."""
    value = request.headers.get(name)
    if value is not None:
        return value
    lowered = name.lower()
    return next((v for k, v in request.headers.items() if k.lower() == lowered), None)


def matching_key(
    secrets: Sequence[bytes], message: bytes, signature: str, encoding: Encoding
) -> int | None:
    """Index of the first secret whose HMAC-SHA256 of the message is the signature.

    Every secret is tried to the end, so that the time taken tells nothing of which one held.
    An empty secret is refused: anybody could sign with it.

    Raises:
        SignatureError: there is no secret to try, or one is empty.
    """
    if not secrets or not all(secrets):
        raise SignatureError("no_secret", "the source has no secret, or an empty one")
    given = (signature.lower() if encoding == "hex" else signature).encode("utf-8", "surrogatepass")
    found = None
    for index, secret in enumerate(secrets):
        digest = hmac.digest(secret, message, "sha256")
        expected = digest.hex().encode() if encoding == "hex" else base64.b64encode(digest)
        held = hmac.compare_digest(expected, given)
        found = index if held and found is None else found
    return found
