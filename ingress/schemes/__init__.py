"""Signing schemes of incoming webhooks, checked over the raw bytes of the body.

Each scheme is one row of a table in `senders/`, or one line of the table here: a value of
`vendors`, or a module of its own with its `SCHEME`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from ingress.schemes import (
    jwt,
    linear,
    mailgun,
    senders,
    standard_webhooks,
    template,
    twilio,
    vendors,
)
from ingress.schemes.keys import any_secret
from ingress.schemes.options import parse
from ingress.schemes.request import SignedRequest, Verified, Verifier
from ingress.schemes.scheme import Answer, Challenge, Scheme, Success
from streams.errors import SignatureError

__all__ = [
    "SCHEMES",
    "Answer",
    "Challenge",
    "SignedRequest",
    "Success",
    "Verified",
    "Verifier",
    "challenge",
    "check_secret",
    "handshake",
    "sign",
    "success",
    "verifier",
    "verify",
]

SCHEMES: Mapping[str, Scheme] = {
    "standard-webhooks": standard_webhooks.SCHEME,
    "stripe": vendors.STRIPE,
    "github": vendors.GITHUB,
    "shopify": vendors.SHOPIFY,
    "slack": vendors.SLACK,
    "zendesk": vendors.ZENDESK,
    "twilio": twilio.SCHEME,
    "discord": vendors.DISCORD,
    "intercom": vendors.INTERCOM,
    "linear": linear.SCHEME,
    "pagerduty": vendors.PAGERDUTY,
    "hmac-sha256": template.HMAC_SHA256,
    "ed25519": template.ED25519,
    "jwt": jwt.SCHEME,
    "token": template.TOKEN,
    "mailgun": mailgun.SCHEME,
    **senders.SENDERS,
}
"""The schemes by the name that a source's settings carry."""

_LARGEST_HANDSHAKE_BYTES = 16 * 1024
"""A larger body is never a handshake, so it is not parsed to look for one."""


def verifier(scheme: str, options: Mapping[str, Any]) -> Verifier:
    """A scheme under a source's options, ready to verify many requests.

    Raises:
        SignatureError: the scheme does not exist, or an option does not fit it.
    """
    chosen = _scheme(scheme)
    return chosen.verifier(parse(chosen.options, options))


def verify(
    scheme: str,
    secrets: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str = "",
    method: str = "POST",
    now: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Verified:
    """Verify one request: header names in any case, `secrets` newest first, `now` in seconds.

    Raises:
        SignatureError: and nothing else.
    """
    request = SignedRequest(headers, body, url, method, time.time() if now is None else now)
    return verifier(scheme, options or {})(secrets, request)


def sign(
    scheme: str, secret: bytes, request: SignedRequest, options: Mapping[str, Any] | None = None
) -> SignedRequest:
    """The request as the scheme's sender would send it, signed at its `now`.

    Raises:
        SignatureError: the scheme does not exist, or cannot sign with this secret.
    """
    chosen = _scheme(scheme)
    return chosen.signer(parse(chosen.options, options or {}))(secret, request)


def check_secret(scheme: str, secret: bytes) -> None:
    """Return if the scheme can verify with this secret; an unknown scheme accepts any text.

    Raises:
        SignatureError: the scheme cannot use it; the message says why and repeats nothing of it.
    """
    any_secret(secret)
    if scheme in SCHEMES:
        SCHEMES[scheme].decode_secret(secret)


def challenge(scheme: str, options: Mapping[str, Any]) -> Challenge:
    """Answers the unsigned questions of this scheme's vendor, under a source's options.

    Raises:
        SignatureError: the scheme does not exist, or an option does not fit it.
    """
    chosen = _scheme(scheme)
    if chosen.challenge is None:
        return lambda request: None
    return partial(chosen.challenge, parse(chosen.options, options))


def success(scheme: str) -> Success:
    """How an accepted event of this scheme is answered."""
    return _scheme(scheme).success


def handshake(scheme: str, body: bytes, secret: bytes) -> Answer | None:
    """The answer to a body, signed under a secret, that is a handshake of this scheme's vendor."""
    asked = SCHEMES[scheme].handshake if scheme in SCHEMES else None
    if asked is None or len(body) > _LARGEST_HANDSHAKE_BYTES:
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return asked(document, secret) if isinstance(document, dict) else None


def _scheme(name: str) -> Scheme:
    if name not in SCHEMES:
        raise SignatureError("unknown_scheme", f"no such scheme: use one of {', '.join(SCHEMES)}")
    return SCHEMES[name]
