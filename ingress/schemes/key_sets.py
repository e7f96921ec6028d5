"""Reads JSON Web Key Sets (RFC 7517)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from ingress.schemes.keys import bad_secret

AsymmetricKey = RSAKey | ECKey | OKPKey

PUBLIC_KEY_ALGORITHMS = (
    "Ed25519",
    "EdDSA",
    "ES256",
    "ES384",
    "ES512",
    "PS256",
    "PS384",
    "PS512",
    "RS256",
    "RS384",
    "RS512",
)
"""What a token may be signed with (RFC 7518). Whoever read a shared key could also make tokens."""

_CURVES = frozenset({"P-256", "P-384", "P-521", "Ed25519"})
_LEAST_RSA_BITS = 2048


@lru_cache(maxsize=1024)
def key_set(secret: bytes) -> tuple[AsymmetricKey, ...]:
    """The public keys of a JSON Web Key Set (RFC 7517).

    Raises:
        SignatureError: the secret is no such set, or holds a key that must not or cannot verify.
    """
    try:
        document = orjson.loads(secret)
        keys = KeySet.import_key_set(document).keys
    except (JoseError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        raise bad_secret('is no JSON Web Key Set: {"keys": [...]} with at least one key') from None
    signing = tuple(_public(key) for key in keys if key.get("use") in (None, "sig"))
    if not signing:
        raise bad_secret("is a JSON Web Key Set without a key for signatures")
    return signing


def private_key(secret: bytes) -> AsymmetricKey:
    """The first key of a JSON Web Key Set that has its private part, or one such key alone.

    Raises:
        SignatureError: there is none.
    """
    try:
        document = orjson.loads(secret)
        keys = KeySet.import_key_set(document if "keys" in document else {"keys": [document]}).keys
    except (JoseError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        raise bad_secret("is no JSON Web Key, nor a set of them") from None
    for key in keys:
        if isinstance(key, AsymmetricKey) and key.is_private:
            return _fit(key)
    raise bad_secret("holds no private key: only the sender's signs")


def _public(key: Any) -> AsymmetricKey:
    if not isinstance(key, AsymmetricKey):
        raise bad_secret("holds a symmetric key: a token's keys are public ones")
    if key.is_private:
        raise bad_secret("holds a private key: give its public part alone")
    return _fit(key)


def _fit(key: AsymmetricKey) -> AsymmetricKey:
    """The key, if it is long enough and on a curve that signs."""
    if isinstance(key, RSAKey):
        if key.raw_value.key_size < _LEAST_RSA_BITS:
            raise bad_secret(f"holds an RSA key of fewer than {_LEAST_RSA_BITS} bits")
    elif key.curve_name not in _CURVES:
        raise bad_secret(f"holds a key on a curve that is none of {', '.join(sorted(_CURVES))}")
    return key
