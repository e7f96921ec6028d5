"""The public keys of an issuer (JSON Web Key Set, RFC 7517)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from streams.access.oidc.answers import Json

PublicKey = RSAKey | ECKey | OKPKey

_MOST_KEYS = 64
_LEAST_RSA_BITS = 2048
_CURVES = frozenset({"P-256", "P-384", "P-521", "Ed25519"})


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, the id by which tokens name it, and the one algorithm that it has, if it says so."""

    key: PublicKey
    id: str | None
    algorithm: str | None

    def fits(self, algorithm: str) -> bool:
        """Return whether the key verifies signatures of an algorithm."""
        return self.algorithm in (None, algorithm) and algorithm in _algorithms(self.key)


def signing_keys(document: Json) -> tuple[SigningKey, ...]:
    """Return the keys of a set that can verify; keys that cannot are passed over."""
    given = document.get("keys")
    listed = given[:_MOST_KEYS] if isinstance(given, list) else []
    return tuple(found for each in listed if (found := _key(each)) is not None)


def named(keys: Sequence[SigningKey], id_: str | None, algorithm: str) -> SigningKey | None:
    """Return the key that a token names. A token that names none has the only key that fits."""
    fitting = [key for key in keys if key.fits(algorithm)]
    if id_ is None:
        return fitting[0] if len(fitting) == 1 else None
    return next((key for key in fitting if key.id == id_), None)


def _key(given: Any) -> SigningKey | None:
    if not isinstance(given, dict) or given.get("use", "sig") != "sig":
        return None
    try:
        key = JWKRegistry.import_key(given)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, RSAKey | ECKey | OKPKey) or not _algorithms(key):
        return None
    return SigningKey(key, _text(given, "kid"), _text(given, "alg"))


def _algorithms(key: PublicKey) -> tuple[str, ...]:
    """Return what a key can verify; nothing for one that is too short or on another curve."""
    if isinstance(key, RSAKey):
        long_enough = key.raw_value.key_size >= _LEAST_RSA_BITS
        return ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512") if long_enough else ()
    if key.curve_name not in _CURVES:
        return ()
    by_curve = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
    found = by_curve.get(key.curve_name)
    return ("EdDSA", "Ed25519") if found is None else (found,)


def _text(given: Json, name: str) -> str | None:
    found = given.get(name)
    return found if isinstance(found, str) else None
