"""Tokens bound to a body: PyJWT, which shares no code with joserfc, signs them all."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ingress.schemes import Verified, verify
from ingress.schemes.key_sets import PUBLIC_KEY_ALGORITHMS
from streams.errors import SignatureError

NOW = 1_700_000_000
BODY = b'{"id":"1"}\xff'
HASH = hashlib.sha256(BODY).digest()
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def jwk(private: Any, **more: str) -> dict[str, Any]:
    kind: dict[type, Any] = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    algorithm = next(found for base, found in kind.items() if isinstance(private, base))
    return dict(json.loads(algorithm.to_jwk(private.public_key()))) | more


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


KEYS = key_set(jwk(RSA, kid="r"), jwk(EC, kid="e"), jwk(ED, kid="o"))


def token(key: Any = ED, algorithm: str = "EdDSA", kid: str | None = None, **claims: Any) -> str:
    payload = {"exp": NOW + 60, "body_sha256": HASH.hex()} | claims
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(payload, key, algorithm, headers={"kid": kid} if kid else None)


def check(given: str, secrets: bytes = KEYS, body: bytes = BODY, **options: str) -> Verified:
    headers = {"authorization": f"Bearer {given}"}
    return verify("jwt", [secrets], headers, body, now=NOW, options=options)


def refused(given: str, *args: Any, **more: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        check(given, *args, **more)
    return caught.value.reason


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(ED, "EdDSA"), (EC, "ES256"), (RSA, "RS256"), (RSA, "RS512"), (RSA, "PS256")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_token_of_a_public_key_in_the_set_holds(key: Any, algorithm: str) -> None:
    assert check(token(key, algorithm, iat=NOW - 1)) == Verified(0, NOW - 1)
    assert check(token(key, algorithm, kid="elsewhere")) == Verified(0, None)


def test_a_token_is_of_one_body() -> None:
    for form in (
        HASH.hex(),
        base64.b64encode(HASH).decode(),
        base64.urlsafe_b64encode(HASH).decode().rstrip("="),
    ):
        assert check(token(body_sha256=form)).key_index == 0
        assert refused(token(body_sha256=form), body=BODY + b" ") == "mismatch"
    for other in (None, "", 5, [HASH.hex()], "é"):
        assert refused(token(body_sha256=other)) == "mismatch"


def test_the_claim_of_the_hash_may_have_another_name() -> None:
    given = token(body_sha256=None, request_body_sha256=HASH.hex())
    assert check(given, body_claim="request_body_sha256").key_index == 0


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW}, "stale"),
        ({"exp": NOW - 1}, "stale"),
        ({"exp": None}, "bad_claim"),
        ({"exp": str(NOW + 60)}, "bad_claim"),
        ({"exp": True}, "bad_claim"),
        ({"nbf": NOW + 6}, "bad_claim"),
        ({"nbf": "soon"}, "bad_claim"),
        ({"aud": "another"}, "bad_claim"),
    ],
)
def test_expired_early_and_others_tokens_are_refused(claims: dict[str, Any], reason: str) -> None:
    assert refused(token(**claims)) == reason


def test_a_senders_clock_may_be_five_seconds_ahead() -> None:
    assert check(token(nbf=NOW + 5, iat=NOW + 5)).key_index == 0


def test_issuer_and_audience_are_demanded_where_they_are_chosen() -> None:
    chosen: Any = {"issuer": "acme", "audience": "hooks"}
    assert check(token(iss="acme", aud=["x", "hooks"]), **chosen).key_index == 0
    for claims in ({}, {"iss": "acme"}, {"iss": "acme", "aud": "x"}, {"iss": "x", "aud": "hooks"}):
        assert refused(token(**claims), **chosen) == "bad_claim"


def test_no_token_without_a_public_keys_signature_holds() -> None:
    """RFC 8725: `none`, and HMAC under what is public."""
    assert {name[:2] for name in PUBLIC_KEY_ALGORITHMS} == {"Ed", "ES", "PS", "RS"}
    unsigned = jwt.encode({"exp": NOW + 60, "body_sha256": HASH.hex()}, "", "none")
    assert refused(unsigned) == "mismatch"
    header, payload, _ = token().split(".")
    for name in ("HS256", "hs256", "HS512"):
        head = base64.urlsafe_b64encode(json.dumps({"alg": name}).encode()).decode().rstrip("=")
        for key in (KEYS, json.dumps(jwk(ED)).encode(), ED.public_key().public_bytes_raw()):
            mac = hmac.digest(key, f"{head}.{payload}".encode(), "sha256")
            text = base64.urlsafe_b64encode(mac).decode().rstrip("=")
            assert refused(f"{head}.{payload}.{text}") == "mismatch"
    assert refused(f"{header}.{payload}.") == "mismatch"
    assert refused(token(ed25519.Ed25519PrivateKey.generate())) == "mismatch"


def test_a_key_named_for_another_algorithm_does_not_verify() -> None:
    assert refused(token(RSA, "RS256"), key_set(jwk(RSA, alg="PS256"))) == "mismatch"
    not_for_signatures = {k: v for k, v in jwk(RSA, use="enc").items() if k != "key_ops"}
    set_of_two = key_set(not_for_signatures, jwk(EC, use="sig"))
    assert refused(token(RSA, "RS256"), set_of_two) == "mismatch"
    assert check(token(EC, "ES256"), set_of_two).key_index == 0


def test_the_second_key_set_of_a_rotation_still_holds() -> None:
    headers = {"Authorization": f"bearer {token(EC, 'ES256')}"}
    secrets = [key_set(jwk(ED)), key_set(jwk(EC))]
    assert verify("jwt", secrets, headers, BODY, now=NOW).key_index == 1


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "missing_header"),
        ({"Authorization": ""}, "bad_format"),
        ({"Authorization": "Basic x"}, "bad_format"),
        ({"Authorization": "Bearer"}, "mismatch"),
        ({"Authorization": "Bearer a.b.c.d.e"}, "mismatch"),
        ({"Authorization": "Bearer " + "e30." * 3000}, "mismatch"),
    ],
)
def test_what_is_no_token_is_refused(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(SignatureError) as caught:
        verify("jwt", [KEYS], headers, BODY, now=NOW)
    assert caught.value.reason == reason
