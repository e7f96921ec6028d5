"""Checks of one signed request, as it is and changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import nacl.signing
import pytest

from ingress.schemes import Verified, verify
from streams.errors import SignatureError
from support.vectors import Vector

NOW = 1_700_000_000


BODY = b'{"type":"a.b","data":{"id":"1"}}\xff'


def check(vector: Vector, **changes: Any) -> Verified:
    seen = dataclasses.replace(vector, **changes)
    return verify(
        seen.scheme,
        [seen.secret],
        seen.headers,
        seen.body,
        url=seen.url,
        now=seen.now,
        options=seen.options,
    )


def refused(vector: Vector, **changes: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        check(vector, **changes)
    return caught.value.reason


SIGNER = nacl.signing.SigningKey(b"\x07" * 32)


def discord(message: bytes, stamp: str, key: nacl.signing.SigningKey = SIGNER) -> dict[str, str]:
    signature = key.sign(stamp.encode() + message).signature
    return {"X-Signature-Ed25519": signature.hex(), "X-Signature-Timestamp": stamp}
