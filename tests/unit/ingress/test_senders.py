"""Every row of `ingress/schemes/senders` takes what its vendor signs, and nothing near it."""

from __future__ import annotations

import base64
import hmac
from typing import Any

import nacl.signing
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    SECP384R1,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.sender_rules import BODY_RULES, SECRET, TIME_RULES, TOKEN_RULES, URL

from ingress.samples import sample
from ingress.schemes import SCHEMES, check_secret, sign, verify
from ingress.schemes.normalize import Normalizer
from ingress.schemes.request import SignedRequest, Verified
from ingress.schemes.senders import SENDERS
from streams.errors import SignatureError

NOW = 1_790_000_000.0
RULES = BODY_RULES | TIME_RULES | TOKEN_RULES
BODY = b'{"id": 1}\xff'
PUBLIC = {"sendgrid", "telnyx"}


def check(scheme: str, headers: dict[str, str], body: bytes = BODY, **more: Any) -> Verified:
    given: dict[str, Any] = {"secrets": [SECRET], "url": URL, "now": NOW} | more
    secrets = given.pop("secrets")
    return verify(scheme, secrets, headers, body, **given)


def reason(scheme: str, headers: dict[str, str], body: bytes = BODY, **more: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        check(scheme, headers, body, **more)
    return caught.value.reason


def test_there_is_a_rule_of_every_row() -> None:
    assert set(SENDERS) - PUBLIC == set(RULES) - {"token"}


@pytest.mark.parametrize("scheme", RULES)
def test_what_the_vendor_signs_holds_under_any_secret_of_the_source(scheme: str) -> None:
    headers = RULES[scheme](BODY, NOW)
    assert check(scheme, headers).key_index == 0
    assert check(scheme, headers, secrets=[b"ab" * 16, SECRET]).key_index == 1
    assert reason(scheme, headers, secrets=[b"ab" * 16]) == "mismatch"


@pytest.mark.parametrize("scheme", RULES)
def test_a_missing_header_is_refused(scheme: str) -> None:
    headers = RULES[scheme](BODY, NOW)
    for name in headers:
        rest = {other: value for other, value in headers.items() if other != name}
        assert reason(scheme, rest) in {"missing_header", "mismatch"}
    assert reason(scheme, {}) == "missing_header"


@pytest.mark.parametrize("scheme", BODY_RULES | TIME_RULES)
def test_another_body_is_refused(scheme: str) -> None:
    assert reason(scheme, RULES[scheme](BODY, NOW), BODY + b" ") == "mismatch"
    assert reason(scheme, RULES[scheme](BODY, NOW), b"") == "mismatch"


@pytest.mark.parametrize("scheme", TIME_RULES)
def test_an_old_time_is_refused_unless_the_source_tolerates_it(scheme: str) -> None:
    for at in (NOW - 601, NOW + 601):
        headers = TIME_RULES[scheme](BODY, at)
        assert reason(scheme, headers) == "stale"
        assert check(scheme, headers, options={"tolerance_seconds": 700.0}).timestamp == at


@pytest.mark.parametrize("scheme", TIME_RULES)
def test_the_time_is_signed(scheme: str) -> None:
    headers, others = (TIME_RULES[scheme](BODY, at) for at in (NOW, NOW + 2))
    signing = next(name for name in headers if not name.lower().endswith(("timestamp", "id")))
    if len(headers) > 1:
        assert reason(scheme, others | {signing: headers[signing]}) == "mismatch"
    else:
        moved = headers[signing].replace("=179", "=178")
        assert reason(scheme, {signing: moved}) == "mismatch"


@pytest.mark.parametrize("scheme", ["square", "hubspot"])
def test_the_url_is_signed(scheme: str) -> None:
    assert reason(scheme, RULES[scheme](BODY, NOW), url=URL + "?x=1") == "mismatch"


def test_a_twitch_message_is_known_by_its_signed_id() -> None:
    body = b'{"subscription":{"type":"stream.online"},"event":{}}'
    held = check("twitch", TIME_RULES["twitch"](body, NOW), body)
    assert held.message_id == "befa7b53"
    assert Normalizer("twitch", {}).normalize({}, body, held).dedup_key == "befa7b53"
    forged = TIME_RULES["twitch"](body, NOW) | {"Twitch-Eventsub-Message-Id": "other"}
    assert reason("twitch", forged, body) == "mismatch"


def test_telnyx_signs_with_ed25519_the_time_a_bar_and_the_body() -> None:
    key = nacl.signing.SigningKey(b"\x07" * 32)
    signature = key.sign(b"1790000000|" + BODY).signature
    headers = {
        "telnyx-timestamp": "1790000000",
        "telnyx-signature-ed25519": base64.b64encode(signature).decode(),
    }
    secrets = [base64.b64encode(bytes(key.verify_key))]
    assert check("telnyx", headers, secrets=secrets).timestamp == NOW
    assert reason("telnyx", headers, BODY + b" ", secrets=secrets) == "mismatch"
    assert reason("telnyx", headers, secrets=secrets, now=NOW + 301) == "stale"


SENDGRID_KEY = (
    b"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQG"
    b"hHPTnlvFYPAZFceEu/1FwCM/QmGUhA=="
)
"""The key of the tests of SendGrid's own library (@sendgrid/eventwebhook)."""


def test_sendgrid_signs_with_ecdsa_the_time_and_the_body() -> None:
    key = generate_private_key(SECP256R1())
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = base64.b64encode(key.sign(b"1790000000" + BODY, ECDSA(SHA256()))).decode()
    headers = {
        "X-Twilio-Email-Event-Webhook-Signature": signature,
        "X-Twilio-Email-Event-Webhook-Timestamp": "1790000000",
    }
    for secret in (base64.b64encode(der), pem):
        assert check("sendgrid", headers, secrets=[secret]).timestamp == NOW
        assert reason("sendgrid", headers, BODY + b" ", secrets=[secret]) == "mismatch"
        assert reason("sendgrid", headers, secrets=[secret], now=NOW + 301) == "stale"
    assert reason("sendgrid", headers, secrets=[SENDGRID_KEY]) == "mismatch"
    for wrong in ("", "AAAA", signature[:-4], "*", "\udcff"):
        changed = headers | {"X-Twilio-Email-Event-Webhook-Signature": wrong}
        assert reason("sendgrid", changed, secrets=[pem]) == "mismatch"
    other = generate_private_key(SECP384R1()).public_key()
    for unfit in (b"hunter2", other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)):
        with pytest.raises(SignatureError, match=r"public key|base64"):
            check_secret("sendgrid", unfit)


def mailgun(at: float, token: str = "a" * 50) -> dict[str, Any]:
    mac = hmac.new(SECRET, f"{int(at)}{token}".encode(), "sha256").hexdigest()
    return {"timestamp": str(int(at)), "token": token, "signature": mac}


def test_mailguns_signature_is_in_the_body_and_may_be_of_the_parent_account() -> None:
    event = {"event-data": {"event": "opened", "id": "e1", "timestamp": 1521472262.908181}}
    body = orjson.dumps({"signature": mailgun(NOW), **event})
    assert check("mailgun", {}, body).timestamp == NOW
    parent = mailgun(NOW) | {"signature": "00" * 32, "parent-signature": mailgun(NOW)["signature"]}
    assert check("mailgun", {}, orjson.dumps({"signature": parent, **event})).key_index == 0
    found = Normalizer("mailgun", {}).normalize({}, body)
    assert found.dedup_key == '["e1","1521472262.908181"]', "an id is unique within a day alone"
    assert reason("mailgun", {}, orjson.dumps({"signature": mailgun(NOW - 301)})) == "stale"
    moved = mailgun(NOW) | {"timestamp": str(int(NOW) + 1)}
    assert reason("mailgun", {}, orjson.dumps({"signature": moved})) == "mismatch"
    for wrong in (b"", b"[]", b'{"signature":"x"}', b"{}"):
        assert reason("mailgun", {}, wrong) == "missing_header"
    unfits: list[dict[str, Any]] = [
        {"token": 1},
        {"token": None},
        {"timestamp": {}},
        {"timestamp": "soon"},
    ]
    large = orjson.dumps({"signature": mailgun(NOW), "pad": "x" * 262_144})
    assert reason("mailgun", {}, large) == "missing_header", "it is not parsed for a stranger"
    for unfit in unfits:
        body = orjson.dumps({"signature": mailgun(NOW) | unfit})
        assert reason("mailgun", {}, body) in {"bad_format", "mismatch"}


def test_a_key_of_close_is_hexadecimal() -> None:
    check_secret("close", SECRET)
    for wrong in (b"not hex", b"abc", b" "):
        with pytest.raises(SignatureError):
            check_secret("close", wrong)


@pytest.mark.parametrize("scheme", [*RULES, "mailgun"])
def test_what_a_row_signs_it_verifies(scheme: str) -> None:
    made = sample(scheme, None, NOW)
    found = sign(scheme, SECRET, SignedRequest(made.headers, made.body, URL, "POST", NOW))
    assert check(scheme, dict(found.headers), found.body).key_index == 0


TWICE = {
    "coinbase-commerce": {"attempt_number": 2},
    "checkr": {"webhook_url": "x"},
    "easypost": {"pending_urls": ["x"]},
    "square": {"retry": 1},
    "paddle": {"notification_id": "ntf_2"},
    "telnyx": {"meta": {"attempt": 2}},
    "okta": {"contentType": "x"},
}


@pytest.mark.parametrize("scheme", TWICE)
def test_an_event_that_is_written_anew_keeps_its_key(scheme: str) -> None:
    first = orjson.loads(sample(scheme, None, NOW).body)
    keys = {key(scheme, first), key(scheme, first | TWICE[scheme])}
    assert len(keys) == 1
    assert not keys.pop().startswith("sha256:")


def test_a_retry_of_pipedrive_counts_in_its_body_and_is_the_same_event() -> None:
    first = orjson.loads(sample("pipedrive", None, NOW).body)
    again = first | {"meta": first["meta"] | {"attempt": 2}}
    assert key("pipedrive", first) == key("pipedrive", again)
    for name in ("id", "entity", "entity_id", "action"):
        other = first | {"meta": first["meta"] | {name: "other"}}
        assert key("pipedrive", first) != key("pipedrive", other)
    old = {"v": 1, "meta": {"v": 1, "object": "deal", "id": 7, "action": "updated"}}
    assert key("pipedrive", old).startswith("sha256:"), "in version 1 the id is the entity's"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_id_of_an_entity_is_no_events_id(scheme: str) -> None:
    body = {"id": "4711", "event_id": "concert", "status": "open"}
    keys = {key(scheme, body), key(scheme, body | {"status": "solved"})}
    assert len(keys) == 2 or keys == {"request:evt_1"}


def test_a_batch_is_one_event_known_by_the_ids_in_it() -> None:
    events: list[dict[str, Any]] = [
        {"sg_event_id": "1", "event": "open"},
        {"sg_event_id": "2", "event": "click"},
    ]
    again = [event | {"attempt": 2} for event in events]
    assert key("sendgrid", events) == key("sendgrid", again) != key("sendgrid", events[:1])
    assert key("sendgrid", [*events, {}]).startswith("sha256:")
    streams = [{"specversion": "1.0", "source": "/s", "id": "EZ1", "type": "com.twilio.a"}]
    found = Normalizer("twilio", {}).normalize({}, orjson.dumps(streams))
    assert (found.event_type, found.dedup_key) == ("batch", '["[\\"/s\\",\\"EZ1\\"]"]')


def test_dropboxs_notifications_are_all_alike_and_each_is_an_event() -> None:
    reader, body = Normalizer("dropbox", {}), sample("dropbox", None, NOW).body
    keys = {reader.normalize({}, body, None, event_id).dedup_key for event_id in ("evt_1", "evt_2")}
    assert len(keys) == 2
    own = Normalizer("dropbox", {"dedup_key": "list_folder.accounts[0]"})
    assert own.normalize({}, body).dedup_key.startswith("dbid:")


def key(scheme: str, document: Any) -> str:
    return Normalizer(scheme, {}).normalize({}, orjson.dumps(document), None, "evt_1").dedup_key


@pytest.mark.parametrize(
    ("options", "header"),
    [
        (
            {
                "prefix": "h1=",
                "separator": ";",
                "timestamp_prefix": "ts=",
                "signed": "{timestamp}:{body}",
            },
            "ts={t};h1={s}",
        ),
        (
            {
                "prefix": "v1=",
                "separator": ",",
                "timestamp_prefix": "t=",
                "signed": "{timestamp}:{body}",
            },
            "t={t}, v1=00,v1={s}",
        ),
    ],
)
def test_options_describe_a_sender_that_puts_the_time_beside_its_signature(
    options: dict[str, Any], header: str
) -> None:
    signature = hmac.new(SECRET, b"1790000000:" + BODY, "sha256").hexdigest()
    headers = {"X-Signature": header.format(t="1790000000", s=signature)}
    assert check("hmac-sha256", headers, options=options).timestamp == NOW
    assert reason("hmac-sha256", headers, options=options, now=NOW + 301) == "stale"
    assert reason("hmac-sha256", {"X-Signature": signature}, options=options) == "bad_format"


def test_a_list_of_signatures_under_a_public_key_costs_a_stranger_no_more_than_four() -> None:
    key = nacl.signing.SigningKey(b"\x07" * 32)
    options, secrets = {"separator": ","}, [bytes(key.verify_key).hex().encode()]
    held, wrong = key.sign(BODY).signature.hex(), "00" * 64
    fourth = {"X-Signature": ",".join([wrong] * 3 + [held])}
    assert check("ed25519", fourth, options=options, secrets=secrets).key_index == 0
    fifth = {"X-Signature": ",".join([wrong] * 4 + [held])}
    assert reason("ed25519", fifth, options=options, secrets=secrets) == "mismatch"


@pytest.mark.parametrize(
    "options",
    [
        {"timestamp_prefix": "t=", "signed": "{timestamp}.{body}"},
        {"timestamp_prefix": "t=", "separator": ","},
        {
            "timestamp_prefix": "t=",
            "separator": ",",
            "timestamp_header": "X-T",
            "signed": "{timestamp}{body}",
        },
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict[str, Any]) -> None:
    assert reason("hmac-sha256", {}, options=options) == "bad_options"
