"""Reads the secret of a source, or refuses it and says what is wrong.

Operator and ingress both use these functions and those of `elliptic_keys` and `key_sets`, so the
operator refuses a secret that the ingress could not verify with.
"""

from __future__ import annotations

import base64
import binascii

from streams.errors import SignatureError


def any_secret(secret: bytes) -> bytes:
    """A secret that is used as an HMAC key as it is.

    Raises:
        SignatureError: the secret is empty.
    """
    if not secret:
        raise bad_secret("is empty: anybody could sign with it")
    return secret


def hex_key(secret: bytes) -> bytes:
    """An HMAC key that the vendor shows in hexadecimal.

    Raises:
        SignatureError: the secret is no hexadecimal, or is empty.
    """
    try:
        return any_secret(binascii.unhexlify(secret.strip()))
    except binascii.Error:
        raise bad_secret("is not hexadecimal: copy it whole") from None


def from_base64(text: bytes, fault: str) -> bytes:
    """The bytes of a text in base64.

    Raises:
        SignatureError: it is none; the message begins with `fault`.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise bad_secret(f"{fault}: copy it whole") from None


def bad_secret(text: str) -> SignatureError:
    """The error of a secret of which `text` says what is wrong."""
    return SignatureError("bad_secret", text)
