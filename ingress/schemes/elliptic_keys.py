"""Decodes keys of elliptic curves: Ed25519 (RFC 8032) and P-256 (FIPS 186-5)."""

from __future__ import annotations

import binascii
import re
from functools import lru_cache

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

from ingress.schemes.keys import bad_secret, from_base64

_P = 2**255 - 19
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _P - 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8})
"""The y coordinates of Ed25519's points of small order (RFC 8032 and RFC 7748, section 7)."""


def ed25519_key(secret: bytes) -> bytes:
    """The 32 bytes of a public key in hex, base64 or PEM.

    Raises:
        SignatureError: the secret is none of these.
    """
    text = secret.strip()
    if text.startswith(b"-----BEGIN"):
        return point(_from_pem(text))
    if re.fullmatch(rb"([0-9a-fA-F]{2})+", text):
        return point(binascii.unhexlify(text))
    return point(from_base64(text, "is neither hex, base64 nor PEM"))


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
        raw = from_base64(text, "is no private key in hex, base64 or PEM")
    if len(raw) not in (32, 64):  # with 64, the public key follows the private one
        raise bad_secret(f"has {len(raw)} bytes: a private key of Ed25519 has 32")
    return raw[:32]


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
            key = load_der_public_key(from_base64(text, "is neither PEM nor base64"))
    except (ValueError, UnsupportedAlgorithm):
        raise bad_secret("is no public key in PEM or base64") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise bad_secret("is a public key, but not of P-256")
    return key


def ecdsa_private_key(secret: bytes) -> EllipticCurvePrivateKey:
    """A sender's private key of P-256 in PEM (PKCS #8, without a password).

    Raises:
        SignatureError: the secret is no such key.
    """
    try:
        key = load_pem_private_key(secret.strip(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise bad_secret("is no private key in PEM without a password") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise bad_secret("is a private key, but not of P-256")
    return key


def _from_pem(text: bytes) -> bytes:
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise bad_secret("is no public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise bad_secret("is a public key, but not of Ed25519")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _private_from_pem(text: bytes) -> bytes:
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise bad_secret("is no private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise bad_secret("is a private key, but not of Ed25519")
    return key.private_bytes_raw()


def point(raw: bytes) -> bytes:
    """A public key of Ed25519, if it has the right length and nobody can sign under it.

    Raises:
        SignatureError: it is no such key.
    """
    if len(raw) != 32:
        raise bad_secret(f"has {len(raw)} bytes: a public key of Ed25519 has 32")
    if (int.from_bytes(raw, "little") & (2**255 - 1)) % _P in _SMALL_ORDER:
        raise bad_secret("is a key under which anybody could sign: copy it again from the sender")
    return raw
