"""Layouts: where a request carries its signature, and what the signature covers.

Most vendors' schemes are a layout. HMAC: RFC 2104, FIPS 180-4; Ed25519: RFC 8032; ECDSA: FIPS
186-5, in the form of RFC 3279.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from ingress.schemes.elliptic_keys import (
    ecdsa_key,
    ecdsa_private_key,
    ed25519_key,
    ed25519_private_key,
)
from ingress.schemes.keys import any_secret
from ingress.schemes.options import SchemeOptions
from ingress.schemes.preset import Preset
from ingress.schemes.request import (
    Digest,
    Encoding,
    SignedRequest,
    Verified,
    Verifier,
    ecdsa_holds,
    ecdsa_signature,
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
from ingress.schemes.scheme import ACCEPTED, Answer, Scheme, Success
from streams.errors import SignatureError

_MOST_SIGNATURES = 16
"""The most signatures of one header that are tried."""
_MOST_OF_PUBLIC_KEYS = 4
"""The same under a public key: each costs a computation over the body, also for a stranger's."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of the signature and the data that it covers.

    `signed` alternates literal text and placeholders (`body`, `timestamp`, `id`, `url`, `method`),
    beginning with text. `separator` divides the header into elements: signatures, which begin with
    `prefix` and of which one must hold, and the time, which begins with `timestamp_prefix`. Or the
    time has a header of its own, `timestamp_header`. `id_header` carries the message's id.
    `tolerance_seconds` bounds the time's distance from now, both ways; `clock` is the form in which
    the sender writes it.
    """

    header: str
    prefix: str = ""
    encoding: Encoding = "hex"
    signed: tuple[str, ...] = ("", "body", "")
    timestamp_header: str | None = None
    tolerance_seconds: float = 300
    digest: Digest = "sha256"
    separator: str | None = None
    timestamp_prefix: str | None = None
    id_header: str | None = None
    clock: Literal["seconds", "milliseconds", "iso"] = "seconds"

    @property
    def timed(self) -> str | None:
        """Where the time is, for an error's text; None if the sender signs none."""
        if self.timestamp_prefix is None:
            return self.timestamp_header
        return f"{self.timestamp_prefix.rstrip('=')} in {self.header}"


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a message is signed under a secret, and how a signature of it is checked.

    `holds` takes layout, secret, message and signatures; `signs` takes the first three and returns
    the signature as text. `decode_secret` and `public_key` are those of `Scheme`.
    """

    holds: Callable[[Layout, bytes, bytes, Sequence[str]], bool]
    signs: Callable[[Layout, bytes, bytes], str]
    decode_secret: Callable[[bytes], object] = any_secret
    public_key: bool = False


TIME_DOT_BODY = ("", "timestamp", ".", "body", "")
TIME_BODY = ("", "timestamp", "", "body", "")


def by_hmac(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The secret is the key as it is given."""
    return hmac_holds(secret, message, signatures, layout.encoding, layout.digest)


def _ed25519_holds(
    layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]
) -> bool:
    """The secret is a public key in text."""
    tried = signatures[:_MOST_OF_PUBLIC_KEYS]
    return ed25519_holds(ed25519_key(secret), message, tried, layout.encoding)


def _ecdsa_holds(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The secret is a public key of P-256 in text."""
    tried = signatures[:_MOST_OF_PUBLIC_KEYS]
    return ecdsa_holds(ecdsa_key(secret), message, tried, layout.encoding)


def _token_holds(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    """The header repeats the secret; neither the body nor the time is protected."""
    held = False
    for text in signatures or ("",):
        held |= hmac.compare_digest(secret, raw(text))
    return held


def hmac_signature(layout: Layout, secret: bytes, message: bytes) -> str:
    """The secret is the key as it is given."""
    return encoded(hmac.digest(secret, message, layout.digest), layout.encoding)


def _ed25519_signature(layout: Layout, secret: bytes, message: bytes) -> str:
    """The secret is a private key of Ed25519 in text."""
    return ed25519_signature(ed25519_private_key(secret), message, layout.encoding)


def _ecdsa_signature(layout: Layout, secret: bytes, message: bytes) -> str:
    """The secret is a private key of P-256 in PEM."""
    return ecdsa_signature(ecdsa_private_key(secret), message, layout.encoding)


def _token(layout: Layout, secret: bytes, message: bytes) -> str:
    return secret.decode("utf-8", "surrogateescape")


HMAC = Algorithm(by_hmac, hmac_signature)
ED25519 = Algorithm(_ed25519_holds, _ed25519_signature, ed25519_key, public_key=True)
ECDSA = Algorithm(_ecdsa_holds, _ecdsa_signature, ecdsa_key, public_key=True)
TOKEN = Algorithm(_token_holds, _token)


def sign(
    layout: Layout, secret: bytes, request: SignedRequest, by: Algorithm = HMAC
) -> SignedRequest:
    """Sign one request as the layout says, at the request's `now`."""
    at = _written(layout, request.now)
    message_id = _id(layout, request) or f"msg-{int(request.now * 1000)}"
    message = _message(layout.signed, request, at, message_id)
    signature = layout.prefix + by.signs(layout, secret, message)
    if layout.timestamp_prefix is not None:
        signature = f"{layout.timestamp_prefix}{at}{layout.separator}{signature}"
    stamped = {layout.timestamp_header: at} if layout.timestamp_header else {}
    stamped |= {layout.id_header: message_id} if layout.id_header else {}
    return with_headers(request, {layout.header: signature, **stamped})


def check(
    layout: Layout, secrets: Sequence[bytes], request: SignedRequest, by: Algorithm = HMAC
) -> Verified:
    """Verify one request against a layout; raises `SignatureError` alone.

    The signature is checked before anything is refused. A request that lacks a header thus takes as
    long as one with a wrong signature, and the time does not reveal what was missing.
    """
    given = header(request, layout.header)
    elements = _elements(layout, given or "")
    sent_at = _sent_at(layout, request, elements)
    message_id = _id(layout, request)
    message = _message(layout.signed, request, sent_at or "", message_id or "")
    signatures = _after(layout.prefix, elements)[:_MOST_SIGNATURES]
    well_formed = bool(signatures) and (layout.timestamp_prefix is None or sent_at is not None)
    key_index = require(
        holding_key(secrets, lambda secret: by.holds(layout, secret, message, signatures)),
        given,
        layout.header,
        well_formed=well_formed,
    )
    if layout.id_header is not None and not message_id:
        raise SignatureError("missing_header", f"the request has no {layout.id_header} header")
    if layout.timed is None:
        return Verified(key_index, None, message_id)
    at = fresh(sent_at, request, layout.tolerance_seconds, layout.timed)
    return Verified(key_index, at, message_id)


def _elements(layout: Layout, given: str) -> list[str]:
    """The header's elements; blanks divide it, too, if anything does."""
    if layout.separator is None:
        return [given.strip()]
    return [part for each in given.split(layout.separator) for part in each.split()]


def _after(prefix: str, elements: Sequence[str]) -> list[str]:
    """What follows the prefix in the elements that begin with it."""
    return [each[len(prefix) :] for each in elements if each.startswith(prefix)]


def _sent_at(layout: Layout, request: SignedRequest, elements: Sequence[str]) -> str | None:
    if layout.timestamp_prefix is not None:
        return next(iter(_after(layout.timestamp_prefix, elements)), None)
    return header(request, layout.timestamp_header) if layout.timestamp_header else None


def _id(layout: Layout, request: SignedRequest) -> str | None:
    """The message's id; a record cannot hold one that is not Unicode."""
    found = header(request, layout.id_header) if layout.id_header else None
    return found if found is None or found.isascii() else ""


def _message(signed: tuple[str, ...], request: SignedRequest, sent_at: str, id_: str) -> bytes:
    if signed == ("", "body", ""):
        return request.body
    texts = {"timestamp": sent_at, "id": id_, "url": request.url, "method": request.method}
    parts = (
        request.body if index % 2 and part == "body" else raw(texts[part] if index % 2 else part)
        for index, part in enumerate(signed)
    )
    return b"".join(parts)


def _written(layout: Layout, now: float) -> str:
    if layout.clock == "iso":
        return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(int(now * 1000 if layout.clock == "milliseconds" else now))


def laid_out(
    layout: Layout,
    preset: Preset,
    *,
    by: Algorithm = HMAC,
    options: type[SchemeOptions] = SchemeOptions,
    handshake: Callable[[dict[str, Any], bytes], Answer | None] | None = None,
    challenge: Callable[[Any, SignedRequest], Answer | None] | None = None,
    success: Success = ACCEPTED,
) -> Scheme:
    """The scheme of a vendor with a layout.

    A source's tolerance overrides the layout's when a request is checked. No option changes how its
    sender signs.
    """

    def verifier(options: SchemeOptions) -> Verifier:
        chosen = options.model_dump(include={"tolerance_seconds"}, exclude_none=True)
        return partial(check, replace(layout, **chosen), by=by)

    return Scheme(
        preset,
        verifier,
        lambda _: partial(sign, layout, by=by),
        options,
        by.decode_secret,
        handshake,
        challenge,
        by.public_key,
        success,
    )
