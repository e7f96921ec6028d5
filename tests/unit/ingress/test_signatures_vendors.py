"""Each scheme takes what its vendor signs: a published vector, or an independent signer's work."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import nacl.signing
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from support.signature_checks import BODY, NOW, SIGNER, check, discord, refused
from support.vectors import PAGERDUTY, PUBLISHED, SLACK, STRIPE, TWILIO, TWILIO_OTHERS, Vector

from ingress.schemes import Verified, request, verify
from ingress.schemes import linear as linear_module
from streams.errors import SignatureError


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_vector_holds_and_nothing_near_it(name: str) -> None:
    vector = PUBLISHED[name]
    assert check(vector).key_index == 0
    assert check(vector, headers={k.upper(): v for k, v in vector.headers.items()}).key_index == 0
    assert refused(vector, body=vector.body + b"x") == "mismatch"
    assert refused(vector, secret=vector.secret + b"x") == "mismatch"
    for gone in vector.headers:
        rest = {k: v for k, v in vector.headers.items() if k != gone}
        assert refused(vector, headers=rest) in {"missing_header", "mismatch"}
    assert refused(vector, headers={}) == "missing_header"


@pytest.mark.parametrize("vector", [SLACK, STRIPE], ids=["slack", "stripe"])
@pytest.mark.parametrize("seconds", [-301, 301])
def test_slack_and_stripe_take_five_minutes_both_ways(vector: Vector, seconds: int) -> None:
    assert check(vector, now=vector.now + seconds * 299 / 301).timestamp == vector.now
    assert refused(vector, now=vector.now + seconds) == "stale"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "t=1533204620",
        "t,v1=,v0=",
        ",,",
        "t=,v1=" + "0" * 64,
        "v1=" + "0" * 64,
        "t=1533204620,v0=",
    ],
)
def test_a_stripe_header_that_is_none_is_refused(value: str) -> None:
    reason = refused(STRIPE, headers={"Stripe-Signature": value})
    assert reason in {"bad_format", "mismatch"}


def test_one_of_stripes_signatures_suffices_but_not_its_test_modes_v0() -> None:
    good = STRIPE.headers["Stripe-Signature"].split(",")[1]
    rolled = f"t=1533204620,v1={'0' * 64},{good}"
    assert check(STRIPE, headers={"Stripe-Signature": rolled}).timestamp == STRIPE.now
    downgraded = f"t=1533204620,{good.replace('v1', 'v0')},v1={'0' * 64}"
    assert refused(STRIPE, headers={"Stripe-Signature": downgraded}) == "mismatch"


def test_one_of_pagerdutys_signatures_suffices() -> None:
    good = PAGERDUTY.headers["X-PagerDuty-Signature"]
    for value in (f"v1={'0' * 64},{good}", f"{good}, v1={'0' * 64}"):
        assert check(PAGERDUTY, headers={"X-PagerDuty-Signature": value}).key_index == 0
    later = {"X-PagerDuty-Signature": good.replace("v1", "v2")}
    assert refused(PAGERDUTY, headers=later) == "bad_format"


def test_twilio_signs_the_url_and_every_field() -> None:
    for changes in (
        {"url": TWILIO.url + "3"},
        {"url": TWILIO.url.replace("https", "http")},
        {"url": ""},
        {"body": TWILIO.body.replace(b"1234&", b"1235&")},
        {"body": TWILIO.body + b"&Extra=1"},
        {"body": b"&" * 1000},
    ):
        assert refused(TWILIO, **changes) == "mismatch"
    shuffled = b"&".join(reversed(TWILIO.body.split(b"&")))
    assert check(TWILIO, body=shuffled).key_index == 0


def test_twilio_takes_json_only_with_its_hash_in_the_url() -> None:
    json = TWILIO_OTHERS["JSON by its hash"]
    assert refused(json, body=b'{"property": "evil"}') == "mismatch"
    without = json.url.split("&bodySHA256")[0]
    mac = hmac.digest(json.secret, without.encode(), "sha1")
    headers = {"X-Twilio-Signature": base64.b64encode(mac).decode()}
    assert refused(json, url=without, headers=headers) == "mismatch"


# Ed25519: PyNaCl (libsodium), which Discord's own page verifies with, is the oracle.


def test_discord_signs_timestamp_then_body() -> None:
    secret = SIGNER.verify_key.encode().hex().encode()
    vector = Vector("discord", secret, discord(BODY, str(NOW)), BODY, NOW)
    assert check(vector) == Verified(0, NOW)
    assert refused(vector, body=BODY + b" ") == "mismatch"
    assert refused(vector, now=NOW + 301) == "stale"
    assert refused(vector, headers={}) == "missing_header"
    assert refused(vector, headers={**vector.headers, "X-Signature-Timestamp": "1"}) == "mismatch"
    for signature in ("", "zz", "ab", vector.headers["X-Signature-Ed25519"][:-2], "é"):
        headers = {**vector.headers, "X-Signature-Ed25519": signature}
        assert refused(vector, headers=headers) == "mismatch"


@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_ed25519_takes_header_prefix_encoding_and_template(encoding: str) -> None:
    options: dict[str, object] = {
        "header": "X-Acme-Sig",
        "prefix": "ed=",
        "encoding": encoding,
        "signed": "{method}|{url}|{timestamp}|{body}",
        "timestamp_header": "X-Acme-Time",
        "tolerance_seconds": 10,
    }
    url = "https://hooks.example/a"
    signature = SIGNER.sign(f"POST|{url}|{NOW}|".encode() + BODY).signature
    text = signature.hex() if encoding == "hex" else base64.b64encode(signature).decode()
    vector = Vector(
        "ed25519",
        base64.b64encode(SIGNER.verify_key.encode()),
        {"X-Acme-Sig": f"ed={text}", "X-Acme-Time": str(NOW)},
        BODY,
        NOW,
        url,
        options,
    )
    assert check(vector) == Verified(0, NOW)
    assert refused(vector, url=url + "b") == "mismatch"
    assert refused(vector, now=NOW + 11) == "stale"
    old = nacl.signing.SigningKey(b"\x09" * 32).verify_key.encode().hex().encode()
    both = verify(
        "ed25519", [old, vector.secret], vector.headers, BODY, url=url, now=NOW, options=options
    )
    assert both.key_index == 1


def test_every_key_is_checked_whichever_holds_and_also_without_a_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[int] = []

    class Counting:
        @staticmethod
        def from_public_bytes(raw: bytes) -> Any:
            real = original.from_public_bytes(raw)

            class Key:
                def verify(self, signature: bytes, message: bytes) -> None:
                    checked.append(len(signature))
                    real.verify(signature, message)

            return Key()

    original = Ed25519PublicKey
    monkeypatch.setattr(request, "Ed25519PublicKey", Counting)
    key = SIGNER.verify_key.encode().hex().encode()
    verify("discord", [key, key], discord(BODY, str(NOW)), BODY, now=NOW)
    with pytest.raises(SignatureError):
        verify("discord", [key, key], {}, BODY, now=NOW)
    assert checked == [64, 64, 64, 64]


# Intercom and Linear publish no vector: Intercom's own sample program (intercom-archive/
# intercom-webhooks, ruby/webhook.rb) and Linear's SDK (npm, @linear/sdk 98.0.0,
# LinearWebhookClient.verify) are the oracles.
def written_out(digest: str, secret: bytes, message: bytes) -> bytes:
    """HMAC from RFC 2104, independent of the code under test."""
    block = (secret if len(secret) <= 64 else hashlib.new(digest, secret).digest()).ljust(64, b"\0")
    inner = hashlib.new(digest, bytes(b ^ 0x36 for b in block) + message).digest()
    return hashlib.new(digest, bytes(b ^ 0x5C for b in block) + inner).digest()


def test_intercom_signs_the_body_with_sha1() -> None:
    signature = "sha1=" + written_out("sha1", b"secret", BODY).hex()
    vector = Vector("intercom", b"secret", {"X-Hub-Signature": signature}, BODY)
    assert check(vector) == Verified(0, None)
    assert refused(vector, body=b"") == "mismatch"
    sha256 = "sha256=" + written_out("sha256", b"secret", BODY).hex()
    assert refused(vector, headers={"X-Hub-Signature": sha256}) == "bad_format"


def test_intercom_as_its_sample_program_calculates_it() -> None:
    signature = "sha1=731d4e8ec8697a4a16274081392fb6ad98e39c19"
    body = b'{"topic":"conversation.user.created"}'
    vector = Vector("intercom", b"secret", {"X-Hub-Signature": signature}, body)
    assert check(vector) == Verified(0, None)
    assert refused(vector, body=body + b" ") == "mismatch"


def linear(body: bytes, now: float = NOW) -> Vector:
    signature = written_out("sha256", b"secret", body).hex()
    return Vector("linear", b"secret", {"Linear-Signature": signature}, body, now)


def test_linear_signs_the_body_that_holds_its_time() -> None:
    body = orjson.dumps({"action": "create", "webhookTimestamp": NOW * 1000 + 250})
    assert check(linear(body)) == Verified(0, NOW + 0.25)
    assert refused(linear(body), body=body + b" ") == "mismatch"
    for now in (NOW - 60, NOW + 61):
        assert refused(linear(body, now)) == "stale"
    assert check(linear(body, NOW + 60)).key_index == 0


def test_linear_as_its_sdk_verifies_it() -> None:
    """The SDK takes this signature a second after the body's time, and refuses any other body."""
    body = b'{"action":"create","type":"Issue","webhookTimestamp":1783143198250}'
    signature = "ab7fd3997de9c610678a80dcf02c1ad904d6ca353793336bd6f70cd6ec87297b"
    vector = Vector(
        "linear", b"lin_wh_tide", {"Linear-Signature": signature}, body, 1_783_143_199.25
    )
    assert check(vector) == Verified(0, 1_783_143_198.25)
    assert refused(vector, body=body + b" ") == "mismatch"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "bad_timestamp"),
        (b"{", "bad_timestamp"),
        (b"[]", "missing_header"),
        (b"{}", "missing_header"),
        (b'{"webhookTimestamp":null}', "missing_header"),
        (b'{"webhookTimestamp":true}', "bad_timestamp"),
        (b'{"webhookTimestamp":{}}', "bad_timestamp"),
        (b'{"webhookTimestamp":1e300}', "bad_timestamp"),
        (b"[" * 5000, "bad_timestamp"),
    ],
)
def test_a_linear_body_without_a_time_is_refused(body: bytes, reason: str) -> None:
    assert refused(linear(body)) == reason


def test_nothing_of_linears_body_is_parsed_before_its_mac_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parsed(*_: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(linear_module, "json_document", parsed)
    assert refused(linear(b"{}"), secret=b"other") == "mismatch"
