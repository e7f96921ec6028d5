"""`hmac-sha256` and `ed25519`: a template is signed, the signature stands in a header of any name.

HMAC: RFC 2104, FIPS 180-4; Ed25519: RFC 8032. Most vendors' own schemes are layouts of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ingress.schemes.request import (
    Digest,
    SignedRequest,
    Verified,
    Verifier,
    ed25519_holds,
    fresh,
    header,
    hmac_holds,
    holding_key,
    raw,
    require,
)
from streams.tenants.signature_options import Encoding, TemplateOptions, template
from streams.tenants.signing_keys import ed25519_key

Holds = Callable[["Layout", bytes, bytes, Sequence[str]], bool]
"""Whether one of the signatures is the message's: layout, secret, message, signatures."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the signature stands and what it covers.

    `signed` alternates literal text and placeholders (`body`, `timestamp`, `url`, `method`),
    beginning with text. `separator` stands between several signatures in one header, of which one
    must hold. `tolerance_seconds` bounds the timestamp's distance from now, both ways.
    """

    header: str
    prefix: str = ""
    encoding: Encoding = "hex"
    signed: tuple[str, ...] = ("", "body", "")
    timestamp_header: str | None = None
    tolerance_seconds: float = 300
    digest: Digest = "sha256"
    separator: str | None = None


def hmac_sha256(options: TemplateOptions) -> Verifier:
    """The scheme `hmac-sha256` under these options."""
    return partial(check, chosen(options))


def ed25519(options: TemplateOptions) -> Verifier:
    """The scheme `ed25519` under these options."""
    return partial(check, chosen(options), holds=by_ed25519)


def chosen(options: TemplateOptions) -> Layout:
    """The layout that a source's options describe."""
    return Layout(
        options.header, options.prefix, options.encoding, template(options.signed),
        options.timestamp_header, options.tolerance_seconds,
    )  # fmt: skip


def by_hmac(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The secret is the key as it is given."""
    return hmac_holds(secret, message, signatures, layout.encoding, layout.digest)


def by_ed25519(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The secret is a public key in text."""
    return ed25519_holds(ed25519_key(secret), message, signatures, layout.encoding)


def check(
    layout: Layout, secrets: Sequence[bytes], request: SignedRequest, holds: Holds = by_hmac
) -> Verified:
    """Verify one request against a layout; raises `SignatureError` alone.

    The signature is checked before anything is refused: a request that lacks a header takes as
    long as one with a wrong signature, so no answer's time tells what was missing.
    """
    given = header(request, layout.header)
    sent_at = header(request, layout.timestamp_header) if layout.timestamp_header else None
    message = _message(layout.signed, request, sent_at or "")
    signatures = _signatures(layout, given or "")
    key_index = require(
        holding_key(secrets, lambda secret: holds(layout, secret, message, signatures)),
        given, layout.header, well_formed=bool(signatures),
    )  # fmt: skip
    if layout.timestamp_header is None:
        return Verified(key_index, None)
    at = fresh(sent_at, request, layout.tolerance_seconds, layout.timestamp_header)
    return Verified(key_index, at)


def _signatures(layout: Layout, given: str) -> list[str]:
    parts = given.split(layout.separator) if layout.separator else [given]
    prefix = layout.prefix
    return [part.strip()[len(prefix) :] for part in parts if part.strip().startswith(prefix)]


def _message(signed: tuple[str, ...], request: SignedRequest, sent_at: str) -> bytes:
    if signed == ("", "body", ""):
        return request.body
    texts = {"timestamp": sent_at, "url": request.url, "method": request.method}
    parts = (
        request.body if index % 2 and part == "body" else raw(texts[part] if index % 2 else part)
        for index, part in enumerate(signed)
    )
    return b"".join(parts)
