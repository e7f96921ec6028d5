"""Each scheme signs as its sender does, so that what it signs verifies."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey, OKPKey, RSAKey
from nacl.signing import SigningKey
from standardwebhooks import Webhook

from ingress.schemes import SCHEMES, SignedRequest, sign, verify
from ingress.schemes.senders import SENDERS
from streams.errors import SignatureError

NOW = 1_790_000_000.0
PRIVATE = SigningKey(b"s" * 32)
POINT = bytes(PRIVATE.verify_key)
WHSEC = b"whsec_" + base64.b64encode(b"k" * 24)
JSON = b'{"id": "e1", "type": "order.paid"}'


def private(key: Any) -> bytes:
    return orjson.dumps({"keys": [key.as_dict(private=True)]})


def public(key: Any) -> bytes:
    return orjson.dumps({"keys": [key.as_dict(private=False)]})


@dataclass(frozen=True)
class Case:
    """`signs` is the sender's secret, `verifies` the source's."""

    scheme: str
    signs: bytes = b"a secret of forty characters, at the least"
    verifies: bytes = b""
    body: bytes = JSON
    url: str = "https://hooks.example.com/v1/hooks/acme/shop"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held(self) -> bytes:
        return self.verifies or self.signs


RSA, P384, ED = RSAKey.generate_key(2048), ECKey.generate_key("P-384"), OKPKey.generate_key()
CASES = [
    Case("standard-webhooks", WHSEC),
    Case(
        "standard-webhooks",
        b"whsk_" + base64.b64encode(bytes(PRIVATE)),
        b"whpk_" + base64.b64encode(POINT),
    ),
    Case("stripe"),
    Case("github"),
    Case("github", body=b"payload=%7B%22ref%22%3A1%7D"),
    Case("shopify"),
    Case("slack"),
    Case("zendesk"),
    Case("zendesk", body=b""),
    Case("twilio"),
    Case("twilio", body=b"MessageSid=SM1&Body=a+b%21"),
    Case("twilio", url="https://h.example.com/v1/hooks/acme/sms?x=1"),
    Case("discord", bytes(PRIVATE).hex().encode(), POINT.hex().encode()),
    Case("intercom"),
    Case("linear"),
    Case("pagerduty"),
    Case("hmac-sha256"),
    Case(
        "hmac-sha256",
        options={
            "header": "X-Seal",
            "prefix": "s=",
            "encoding": "base64",
            "timestamp_header": "X-Time",
            "signed": "{method} {url}\n{timestamp}.{body}",
        },
    ),
    Case("ed25519", base64.b64encode(bytes(PRIVATE)), base64.b64encode(POINT)),
    Case("jwt", private(RSA), public(RSA)),
    Case("jwt", private(P384), public(P384), options={"audience": "us", "issuer": "them"}),
    Case("jwt", orjson.dumps(ED.as_dict(private=True)), public(ED), options={"body_claim": "sum"}),
]


def named(case: Case) -> str:
    return f"{case.scheme}-{CASES.index(case)}"


def signed(case: Case) -> SignedRequest:
    request = SignedRequest({"Content-Type": "text/x"}, case.body, case.url, "POST", NOW)
    return sign(case.scheme, case.signs, request, case.options)


def test_there_is_a_case_of_every_scheme() -> None:
    rows = {*SENDERS, "token", "mailgun"}  # test_senders.py has theirs
    assert {case.scheme for case in CASES} == set(SCHEMES) - rows


@pytest.mark.parametrize("case", CASES, ids=named)
def test_what_a_scheme_signs_it_verifies_and_not_another_body(case: Case) -> None:
    found = signed(case)

    def check(body: bytes, now: float = NOW) -> None:
        verify(
            case.scheme,
            [case.held],
            found.headers,
            body,
            url=found.url,
            now=now,
            options=case.options,
        )

    check(found.body)
    assert found.headers["Content-Type"] == "text/x"
    with pytest.raises(SignatureError):
        check(found.body + b" ")


@pytest.mark.parametrize("case", [c for c in CASES if SCHEMES[c.scheme].public_key], ids=named)
def test_a_public_key_signs_nothing_that_verifies(case: Case) -> None:
    def deliver() -> None:
        found = signed(replace(case, signs=case.held))
        verify(case.scheme, [case.held], found.headers, found.body, now=NOW, options=case.options)

    with pytest.raises(SignatureError):
        deliver()


def test_a_standard_webhooks_public_key_is_refused_by_name() -> None:
    with pytest.raises(SignatureError, match="whsk_"):
        signed(Case("standard-webhooks", b"whpk_" + base64.b64encode(POINT)))


def test_a_message_id_that_is_there_is_kept() -> None:
    request = SignedRequest({"webhook-id": "msg_1"}, JSON, "", "POST", NOW)
    found = sign("standard-webhooks", WHSEC, request)
    assert found.headers["webhook-id"] == "msg_1"


def test_a_header_in_another_case_is_replaced_and_not_sent_twice() -> None:
    given = {"Webhook-Id": "msg_1", "WEBHOOK-SIGNATURE": "v1,old", "X-Kind": "a"}
    found = sign("standard-webhooks", WHSEC, SignedRequest(given, JSON, "", "POST", NOW))
    names = [name.lower() for name in found.headers]
    assert sorted(names) == ["webhook-id", "webhook-signature", "webhook-timestamp", "x-kind"]
    assert verify("standard-webhooks", [WHSEC], found.headers, JSON, now=NOW).message_id == "msg_1"


def test_a_private_key_in_pem_signs_and_a_wrong_one_is_named() -> None:
    pem = Ed25519PrivateKey.from_private_bytes(bytes(PRIVATE)).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    found = signed(Case("ed25519", pem))
    held = base64.b64encode(POINT)
    assert verify("ed25519", [held], found.headers, JSON, now=NOW).key_index == 0
    for wrong in (pem[:40], RSA.as_pem(private=True), b"ab" * 31, b"*"):
        with pytest.raises(SignatureError, match="private key"):
            signed(Case("ed25519", wrong))


def test_a_private_key_that_no_ingress_takes_signs_no_token() -> None:
    with pytest.raises(SignatureError, match="curve"):
        signed(Case("jwt", private(OKPKey.generate_key("X25519"))))


def test_linear_signs_its_time_into_the_body_and_nothing_but_an_object() -> None:
    assert orjson.loads(signed(Case("linear")).body)["webhookTimestamp"] == NOW * 1000
    with pytest.raises(SignatureError, match="JSON"):
        signed(Case("linear", body=b"[1]"))
    with pytest.raises(SignatureError, match="JSON"):
        signed(Case("linear", body=b"a=1"))


def test_the_package_of_standard_webhooks_takes_what_we_sign() -> None:
    request = SignedRequest({}, JSON, "", "POST", time.time())
    found = sign("standard-webhooks", WHSEC, request)
    assert Webhook(WHSEC.decode()).verify(JSON, dict(found.headers)) == orjson.loads(JSON)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(SignatureError, match="no such scheme"):
        signed(Case("morse"))
