"""Decides whether an ID token holds (OpenID Connect Core 1.0, section 3.1.3.7).

Whoever can have Tidegate take a token that the issuer did not make, or made for somebody else, or
made for another sign-in, is that person here. So every rule is required, and a refusal says which
one broke, because a wrong clock and an attack look alike to whoever reads the log.
"""

from __future__ import annotations

import binascii
import hmac
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import UnsupportedAlgorithmError
from joserfc.util import urlsafe_b64decode

from streams.access.oidc.issuer import Issuer
from streams.access.oidc.metadata import PUBLIC_KEY_ALGORITHMS, Metadata
from streams.access.oidc.signing_keys import SigningKey, named
from streams.errors import SignInRefused

CLOCK_SKEW_SECONDS = 60
"""How far the clocks of issuer and operator may be apart."""

_LONGEST_SUBJECT = 255

Claims = dict[str, Any]


class _Registry(jws.JWSRegistry):
    """Accepts algorithms of public keys alone, and `EdDSA` without a warning for each token."""

    max_header_length = 16 * 1024

    def get_alg(self, name: str) -> Any:
        if name not in PUBLIC_KEY_ALGORITHMS:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _Registry(strict_check_header=False)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must name beside its issuer and audience.

    A token of a sign-in has its `nonce`. A renewed one may omit it, and is of the same `subject`.
    """

    nonce: str
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """An issuer's keys as they are known, and a way to ask for newer ones."""

    known: Callable[[], Awaitable[Sequence[SigningKey]]]
    newer: Callable[[], Awaitable[Sequence[SigningKey]]]


async def verified(
    token: str, issuer: Issuer, about: Metadata, keys: Keys, expected: Expected, now: float
) -> Claims:
    """Return the claims of a token that holds at a time (Unix, seconds).

    Raises:
        SignInRefused: it does not.
        IssuerUnavailable: its issuer's keys cannot be read.
    """
    algorithm, key_id = _header(token)
    if algorithm not in about.algorithms:
        raise _refused("token-algorithm", "it is not signed with one of the issuer's algorithms")
    key = named(await keys.known(), key_id, algorithm)
    if key is None:  # the issuer may have changed its keys
        key = named(await keys.newer(), key_id, algorithm)
    if key is None:
        raise _refused("token-key-unknown", "its key is none of the issuer's")
    claims = _signed(token, key)
    _check(claims, issuer, expected, now)
    return claims


def _header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the key that a token names, before anything of it is trusted."""
    try:
        header = orjson.loads(urlsafe_b64decode(token.partition(".")[0].encode()))
    except (ValueError, binascii.Error):
        header = None
    if not isinstance(header, dict):
        raise _refused("token-malformed", "it is no JSON Web Token")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
        raise _refused("token-malformed", "its header cannot be read")
    return algorithm, key_id


def _signed(token: str, key: SigningKey) -> Claims:
    try:
        found = jws.deserialize_compact(token, key.key, registry=_REGISTRY)
        claims = orjson.loads(found.payload or b"")
    except Exception:  # a stranger's token can make the library raise anything
        raise _refused("token-signature", "its signature does not hold") from None
    if not isinstance(claims, dict):
        raise _refused("token-malformed", "its claims are no JSON object")
    return claims


def _check(claims: Claims, issuer: Issuer, expected: Expected, now: float) -> None:
    if claims.get("iss") != issuer.url:
        raise _refused("token-issuer", "another issuer made it")
    _check_audience(claims, issuer)
    _check_times(claims, now)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
        raise _refused("token-subject", "its subject is no text of 1 to 255 characters")
    if not subject.isprintable():
        raise _refused("token-subject", "its subject has characters that cannot be printed")
    if expected.subject is not None and subject != expected.subject:
        raise _refused("token-subject", "it is of another person than the session")
    _check_nonce(claims, expected)


def _check_audience(claims: Claims, issuer: Issuer) -> None:
    """Check that the token is for this client, and for others only if it was made for this one."""
    audience, party = claims.get("aud"), claims.get("azp")
    listed = [audience] if isinstance(audience, str) else audience
    if not isinstance(listed, list) or issuer.client_id not in listed:
        raise _refused("token-audience", "it is for another client")
    if party is not None and party != issuer.client_id:
        raise _refused("token-party", "it was made for another client")
    if len(listed) > 1 and party is None:
        raise _refused("token-party", "it is for several clients, and names none as its own")


def _check_times(claims: Claims, now: float) -> None:
    ends, issued, begins = (_time(claims, name) for name in ("exp", "iat", "nbf"))
    if ends is None or issued is None:
        raise _refused("token-times", "it has no exp or no iat")
    if ends <= now - CLOCK_SKEW_SECONDS:
        raise _refused("token-expired", "it has expired: compare the clocks of both machines")
    if max(issued, begins or 0.0) > now + CLOCK_SKEW_SECONDS:
        raise _refused("token-early", "it does not hold yet: compare the clocks of both machines")


def _time(claims: Claims, name: str) -> float | None:
    """Return a time; None if there is none. What is no finite number is refused."""
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise _refused("token-times", f"its {name} is no time")
    return float(found)


def _check_nonce(claims: Claims, expected: Expected) -> None:
    given = claims.get("nonce")
    if given is None and expected.subject is not None:
        return
    text = given if isinstance(given, str) else ""
    if not hmac.compare_digest(text.encode("utf-8", "replace"), expected.nonce.encode()):
        raise _refused("token-nonce", "it belongs to another sign-in")


def _refused(reason: str, why: str) -> SignInRefused:
    return SignInRefused(reason, f"the issuer's ID token is refused: {why}")
