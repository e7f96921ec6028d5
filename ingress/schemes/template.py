"""`hmac-sha256` and `ed25519`: a template is signed, and any header can carry the signature.

HMAC: RFC 2104, FIPS 180-4; Ed25519: RFC 8032. Most vendors' own schemes are layouts of these.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pydantic import Field, ValidationInfo, field_validator

from ingress.schemes.keys import ed25519_key, ed25519_private_key
from ingress.schemes.options import SchemeOptions
from ingress.schemes.preset import GENERIC
from ingress.schemes.request import (
    Digest,
    Encoding,
    SignedRequest,
    Signer,
    Verified,
    Verifier,
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

_PLACEHOLDER = re.compile(r"\{([a-z]*)\}")
_FIELDS = frozenset({"body", "timestamp", "url", "method"})
_HEADER_NAME = r"^[A-Za-z0-9-]{1,64}$"

Holds = Callable[["Layout", bytes, bytes, Sequence[str]], bool]
"""Whether a signature is the message's; the arguments are layout, secret, message, signatures."""

Signs = Callable[["Layout", bytes, bytes], str]
"""A message's signature as text; the arguments are layout, secret, message."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of the signature and the data that it covers.

    `signed` alternates literal text and placeholders (`body`, `timestamp`, `url`, `method`),
    beginning with text. `separator` divides several signatures in one header, of which one must
    hold. `tolerance_seconds` bounds the timestamp's distance from now, both ways. A sender writes
    the timestamp as Unix seconds, or `iso_timestamp`.
    """

    header: str
    prefix: str = ""
    encoding: Encoding = "hex"
    signed: tuple[str, ...] = ("", "body", "")
    timestamp_header: str | None = None
    tolerance_seconds: float = 300
    digest: Digest = "sha256"
    separator: str | None = None
    iso_timestamp: bool = False


class TemplateOptions(SchemeOptions):
    """Options of a source with the scheme `hmac-sha256` or `ed25519`.

    `signed` is a template such as `{timestamp}.{body}`; a timestamp is read from
    `timestamp_header` (Unix or ISO 8601) and must be part of what is signed.
    """

    header: str = Field(default="X-Signature", pattern=_HEADER_NAME)
    prefix: str = Field(default="", max_length=64)
    encoding: Encoding = "hex"
    timestamp_header: str | None = Field(default=None, pattern=_HEADER_NAME)
    signed: str = Field(default="{body}", max_length=256, validate_default=True)
    tolerance_seconds: float = Field(default=300, gt=0)

    @field_validator("signed")
    @classmethod
    def _protects(cls, text: str, info: ValidationInfo) -> str:
        parts = _template(text)
        fields = set(parts[1::2])
        if fields - _FIELDS or any(brace in literal for literal in parts[::2] for brace in "{}"):
            known = " ".join(f"{{{field}}}" for field in sorted(_FIELDS))
            raise ValueError(f"in braces it may hold {known}")
        if "body" not in fields:
            raise ValueError("without {body} nothing is protected")
        if ("timestamp" in fields) != (info.data.get("timestamp_header") is not None):
            raise ValueError("{timestamp} needs timestamp_header, and the reverse")
        return text


def chosen(options: TemplateOptions) -> Layout:
    """The layout that a source's options describe."""
    return Layout(
        options.header, options.prefix, options.encoding, _template(options.signed),
        options.timestamp_header, options.tolerance_seconds,
    )  # fmt: skip


def by_hmac(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The secret is the key as it is given."""
    return hmac_holds(secret, message, signatures, layout.encoding, layout.digest)


def by_ed25519(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The secret is a public key in text."""
    return ed25519_holds(ed25519_key(secret), message, signatures, layout.encoding)


def hmac_signature(layout: Layout, secret: bytes, message: bytes) -> str:
    """The secret is the key as it is given."""
    return encoded(hmac.digest(secret, message, layout.digest), layout.encoding)


def private_signature(layout: Layout, secret: bytes, message: bytes) -> str:
    """The secret is a private key in text."""
    return ed25519_signature(ed25519_private_key(secret), message, layout.encoding)


def sign(
    layout: Layout, secret: bytes, request: SignedRequest, signs: Signs = hmac_signature
) -> SignedRequest:
    """Sign one request as the layout says, at the request's `now`."""
    at = _written(layout, request.now)
    signature = signs(layout, secret, _message(layout.signed, request, at))
    stamped = {layout.timestamp_header: at} if layout.timestamp_header else {}
    return with_headers(request, {layout.header: layout.prefix + signature, **stamped})


def check(
    layout: Layout, secrets: Sequence[bytes], request: SignedRequest, holds: Holds = by_hmac
) -> Verified:
    """Verify one request against a layout; raises `SignatureError` alone.

    The signature is checked before anything is refused. A request that lacks a header thus takes as
    long as one with a wrong signature, and the time does not reveal what was missing.
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


def _written(layout: Layout, now: float) -> str:
    moment = datetime.fromtimestamp(now, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if layout.iso_timestamp else str(int(now))


def _template(text: str) -> tuple[str, ...]:
    """A template's literal texts and, between them, the names of its placeholders."""
    return tuple(_PLACEHOLDER.split(text))


def by_layout(layout: Layout, holds: Holds = by_hmac) -> Callable[[SchemeOptions], Verifier]:
    """The verifier of a vendor with a layout; the source's options override the layout's fields."""
    return lambda options: partial(check, replace(layout, **options.model_dump()), holds=holds)


def signed_by_layout(layout: Layout, signs: Signs = hmac_signature) -> Callable[[object], Signer]:
    """The signer of a vendor with a layout; no option of a source changes how its sender signs."""
    return lambda _: partial(sign, layout, signs=signs)


HMAC_SHA256 = Scheme(
    GENERIC,
    lambda options: partial(check, chosen(options)),
    lambda options: partial(sign, chosen(options)),
    options=TemplateOptions,
)
ED25519 = Scheme(
    GENERIC,
    lambda options: partial(check, chosen(options), holds=by_ed25519),
    lambda options: partial(sign, chosen(options), signs=private_signature),
    options=TemplateOptions,
    decode_secret=ed25519_key,
    public_key=True,
)
