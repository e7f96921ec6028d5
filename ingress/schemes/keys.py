"""Decodes the signing keys in a source's secret, or refuses them and says what is wrong.

Operator and ingress both use these functions, so the operator refuses a secret that the ingress
could not verify with.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from streams.errors import SignatureError

AsymmetricKey = RSAKey | ECKey | OKPKey

PUBLIC_KEY_ALGORITHMS = (
    "Ed25519", "EdDSA", "ES256", "ES384", "ES512",
    "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
)  # fmt: skip
"""What a token may be signed with (RFC 7518). Whoever read a shared key could also make tokens."""

_CURVES = frozenset({"P-256", "P-384", "P-521", "Ed25519"})
_LEAST_RSA_BITS = 2048
_P = 2**255 - 19
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _P - 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8})
"""The y coordinates of Ed25519's points of small order (RFC 8032 and RFC 7748, section 7)."""


@dataclass(frozen=True, slots=True)
class StandardKey:
    """A key of Standard Webhooks: of HMAC (`v1`), or the public one of Ed25519 (`v1a`)."""

    version: Literal["v1", "v1a"]
    raw: bytes = field(repr=False)


def any_secret(secret: bytes) -> bytes:
    """A secret that is used as an HMAC key as it is.

    Raises:
        SignatureError: the secret is empty.
    """
    if not secret:
        raise _bad("is empty: anybody could sign with it")
    return secret


def standard_webhooks_key(secret: bytes) -> StandardKey:
    """A secret in base64 after `whsec_` (or nothing), a public key in base64 after `whpk_`.

    Raises:
        SignatureError: the secret is neither.
    """
    if secret.startswith(b"whpk_"):
        fault = "begins with whpk_, which marks a public key of Ed25519, but is not base64 after it"
        return StandardKey("v1a", _point(_base64(secret[5:], fault)))
    if secret.startswith(b"whsk_"):
        raise _bad("is the sender's private key: give the public one, whpk_")
    key = _base64(secret.removeprefix(b"whsec_"), "is not base64 after whsec_")
    if not key:
        raise _bad("is empty after whsec_")
    return StandardKey("v1", key)


def ed25519_key(secret: bytes) -> bytes:
    """The 32 bytes of a public key in hex, base64 or PEM.

    Raises:
        SignatureError: the secret is none of these.
    """
    text = secret.strip()
    if text.startswith(b"-----BEGIN"):
        return _point(_from_pem(text))
    if re.fullmatch(rb"([0-9a-fA-F]{2})+", text):
        return _point(binascii.unhexlify(text))
    return _point(_base64(text, "is neither hex, base64 nor PEM"))


def ed25519_private_key(secret: bytes) -> bytes:
    """The 32 bytes of a sender's private key in hex, base64 or PEM (PKCS #8, without a password).

    Raises:
        SignatureError: the secret is none of these.
    """
    text = secret.strip()
    if text.startswith(b"-----BEGIN"):
        return _private_from_pem(text)
    if re.fullmatch(rb"([0-9a-fA-F]{2})+", text):
        raw = binascii.unhexlify(text)
    else:
        raw = _base64(text, "is no private key in hex, base64 or PEM")
    if len(raw) not in (32, 64):  # with 64, the public key follows the private one
        raise _bad(f"has {len(raw)} bytes: a private key of Ed25519 has 32")
    return raw[:32]


def hex_key(secret: bytes) -> bytes:
    """An HMAC key that the vendor shows in hexadecimal.

    Raises:
        SignatureError: the secret is no hexadecimal, or is empty.
    """
    try:
        return any_secret(binascii.unhexlify(secret.strip()))
    except binascii.Error:
        raise _bad("is not hexadecimal: copy it whole") from None


@lru_cache(maxsize=1024)
def ecdsa_key(secret: bytes) -> EllipticCurvePublicKey:
    """A public key of P-256 in PEM, or in base64 as its DER.

    Raises:
        SignatureError: the secret is neither.
    """
    text = secret.strip()
    try:
        if text.startswith(b"-----BEGIN"):
            key = load_pem_public_key(text)
        else:
            key = load_der_public_key(_base64(text, "is neither PEM nor base64"))
    except (ValueError, UnsupportedAlgorithm):
        raise _bad("is no public key in PEM or base64") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise _bad("is a public key, but not of P-256")
    return key


def ecdsa_private_key(secret: bytes) -> EllipticCurvePrivateKey:
    """A sender's private key of P-256 in PEM (PKCS #8, without a password).

    Raises:
        SignatureError: the secret is no such key.
    """
    try:
        key = load_pem_private_key(secret.strip(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _bad("is no private key in PEM without a password") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise _bad("is a private key, but not of P-256")
    return key


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
        raise _bad('is no JSON Web Key Set: {"keys": [...]} with at least one key') from None
    signing = tuple(_public(key) for key in keys if key.get("use") in (None, "sig"))
    if not signing:
        raise _bad("is a JSON Web Key Set without a key for signatures")
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
        raise _bad("is no JSON Web Key, nor a set of them") from None
    for key in keys:
        if isinstance(key, AsymmetricKey) and key.is_private:
            return _fit(key)
    raise _bad("holds no private key: only the sender's signs")


def _public(key: Any) -> AsymmetricKey:
    if not isinstance(key, AsymmetricKey):
        raise _bad("holds a symmetric key: a token's keys are public ones")
    if key.is_private:
        raise _bad("holds a private key: give its public part alone")
    return _fit(key)


def _fit(key: AsymmetricKey) -> AsymmetricKey:
    """The key, if it is long enough and on a curve that signs."""
    if isinstance(key, RSAKey):
        if key.raw_value.key_size < _LEAST_RSA_BITS:
            raise _bad(f"holds an RSA key of fewer than {_LEAST_RSA_BITS} bits")
    elif key.curve_name not in _CURVES:
        raise _bad(f"holds a key on a curve that is none of {', '.join(sorted(_CURVES))}")
    return key


def _from_pem(text: bytes) -> bytes:
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise _bad("is no public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise _bad("is a public key, but not of Ed25519")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _private_from_pem(text: bytes) -> bytes:
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _bad("is no private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _bad("is a private key, but not of Ed25519")
    return key.private_bytes_raw()


def _point(raw: bytes) -> bytes:
    if len(raw) != 32:
        raise _bad(f"has {len(raw)} bytes: a public key of Ed25519 has 32")
    if (int.from_bytes(raw, "little") & (2**255 - 1)) % _P in _SMALL_ORDER:
        raise _bad("is a key under which anybody could sign: copy it again from the sender")
    return raw


def _base64(text: bytes, fault: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _bad(f"{fault}: copy it whole") from None


def _bad(text: str) -> SignatureError:
    return SignatureError("bad_secret", text)
