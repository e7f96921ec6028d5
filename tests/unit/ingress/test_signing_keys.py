"""A secret that its scheme could not verify with is refused when it is set, and never shown."""

from __future__ import annotations

import base64
import json
from itertools import count
from typing import Any

import nacl.bindings
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from ingress.schemes import check_secret
from ingress.schemes.elliptic_keys import ed25519_key
from streams.api.refusal import Refusal
from streams.api.sources.source_request import SourceRequest
from streams.errors import SignatureError

KEY = ed25519.Ed25519PrivateKey.generate().public_key()
RAW = KEY.public_bytes_raw()
PEM = KEY.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
X25519 = x25519.X25519PrivateKey.generate().public_key()


def keys(*found: dict[str, Any]) -> bytes:
    return json.dumps({"keys": found}).encode()


def public(key: Any, private: bool = False) -> dict[str, Any]:
    return dict(key.as_dict(private=private))


ED = OKPKey.generate_key("Ed25519")
EC = ECKey.generate_key("P-256")


@pytest.mark.parametrize(
    "text",
    [RAW.hex().encode(), RAW.hex().upper().encode() + b"\n", base64.b64encode(RAW), PEM],
    ids=["hex", "upper", "base64", "pem"],
)
def test_a_public_key_is_taken_in_hex_base64_and_pem(text: bytes) -> None:
    assert ed25519_key(text) == RAW
    check_secret("discord", text)


@pytest.mark.parametrize(
    ("scheme", "secret", "fault"),
    [
        ("github", b"", "empty"),
        ("standard-webhooks", b"whsec_", "empty"),
        ("standard-webhooks", b"whsec_not base64", "whsec_"),
        ("standard-webhooks", b"whpk_YWJj", "3 bytes"),
        ("standard-webhooks", b"whsk_YWJj", "private"),
        ("discord", b"hunter2", "base64"),
        ("discord", RAW.hex()[:-2].encode(), "bytes"),
        ("ed25519", bytes(32).hex().encode(), "anybody could sign"),
        ("ed25519", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "PEM"),
        (
            "ed25519",
            X25519.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "not of Ed25519",
        ),
        ("jwt", b"hunter2", "Key Set"),
        ("jwt", b"[]", "Key Set"),
        ("jwt", b'{"keys":5}', "Key Set"),
        ("jwt", b'{"keys":[5]}', "Key Set"),
        ("jwt", keys(), "Key Set"),
        ("jwt", keys({"kty": "new"}), "Key Set"),
        ("jwt", keys(public(EC) | {"use": "enc"}), "without a key for signatures"),
        ("jwt", keys(public(EC) | {"use": ["sig"]}), "a key for signatures|Key Set"),
        ("jwt", keys({"kty": "OKP", "crv": "Ed25519"}), "Key Set"),
        ("jwt", keys(public(OctKey.generate_key(256), private=True)), "symmetric"),
        ("jwt", keys(public(EC), public(ED, private=True)), "private"),
        ("jwt", keys(public(ECKey.generate_key("secp256k1"))), "curve"),
        ("jwt", keys(public(OKPKey.generate_key("X25519"))), "curve"),
        (
            "jwt",
            keys(
                public(
                    RSAKey.import_key(
                        rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
                    )
                )
            ),
            "2048",
        ),
    ],
    ids=count(),  # keys are made anew for each run: no names
)
def test_an_unusable_secret_is_refused_with_its_fault(
    scheme: str, secret: bytes, fault: str
) -> None:
    with pytest.raises(SignatureError, match=fault) as caught:
        check_secret(scheme, secret)
    assert "hunter2" not in str(caught.value)


def test_a_key_set_of_public_keys_is_taken() -> None:
    check_secret("jwt", keys(public(ED), public(EC), {"kty": "AKP", "alg": "ML-DSA-44"}))


@pytest.mark.parametrize("scheme", ["github", "stripe", "twilio", "linear", "hmac-sha256"])
def test_any_text_is_a_key_of_the_other_schemes(scheme: str) -> None:
    check_secret(scheme, b"any text")


def test_every_point_of_small_order_is_refused_and_no_other() -> None:
    """libsodium is the oracle: it refuses those of small order and those off the curve."""
    prime = 2**255 - 19
    order_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    for y in (0, 1, prime - 1, order_8, prime - order_8, prime, prime + 1):
        for sign in (0, 2**255):
            point = (y + sign).to_bytes(32, "little")
            assert not nacl.bindings.crypto_core_ed25519_is_valid_point(point)
            with pytest.raises(SignatureError, match="anybody"):
                ed25519_key(point.hex().encode())
    assert nacl.bindings.crypto_core_ed25519_is_valid_point(RAW)


def test_setting_a_source_with_such_a_secret_is_a_422_that_names_the_field() -> None:
    for scheme in ("jwt", "discord", "ed25519", "standard-webhooks"):
        wanted = SourceRequest.model_validate({"scheme": scheme, "secret": "hunter2"})
        with pytest.raises(Refusal, match="secret: is n") as refused:
            wanted.new_secret(scheme)
        assert refused.value.status == 422
        assert refused.value.extra["errors"][0]["field"] == "secret"
        assert "hunter2" not in refused.value.detail


def test_an_elliptic_key_that_is_no_point_is_refused() -> None:
    key = public(ECKey.import_key(ec.generate_private_key(ec.SECP256R1()).public_key()))
    with pytest.raises(SignatureError, match="Key Set"):
        check_secret("jwt", keys(key | {"x": key["y"], "y": key["y"]}))
