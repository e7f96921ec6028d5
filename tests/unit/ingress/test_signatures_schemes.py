"""Signatures hold for what the vendor signed, and nothing else gets past them."""

from __future__ import annotations

import base64
import hashlib
import hmac as stdlib_hmac
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingress.schemes import SCHEMES, verifier, verify
from ingress.schemes import request as request_module
from streams.errors import SignatureError

GITHUB_SECRET = b"It's a Secret to Everybody"
GITHUB_BODY = b"Hello, World!"
GITHUB_SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
"""GitHub's documented example: docs.github.com, "Validating webhook deliveries"."""

NOW = 1_616_648_967.0
STAMP = "2021-03-25T05:09:27Z"


def oracle(secret: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 written out from RFC 2104, independent of the code under test."""
    block = (secret if len(secret) <= 64 else hashlib.sha256(secret).digest()).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block) + message).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in block) + inner).digest()


def zendesk(body: bytes, secret: bytes, stamp: str = STAMP) -> dict[str, str]:
    """Signed as Zendesk documents it, base64(HMACSHA256(TIMESTAMP + BODY)), by the oracle.

    Zendesk publishes no vector in that order; its one older example signs body then timestamp.
    """
    return {
        "X-Zendesk-Webhook-Signature": base64.b64encode(
            oracle(secret, stamp.encode() + body)
        ).decode(),
        "X-Zendesk-Webhook-Signature-Timestamp": stamp,
    }


def refused(scheme: str, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        verify(scheme, *args, **kwargs)
    return caught.value.reason


def test_githubs_documented_example_holds() -> None:
    headers = {"X-Hub-Signature-256": GITHUB_SIGNATURE}
    verified = verify("github", [GITHUB_SECRET], headers, GITHUB_BODY)
    assert (verified.key_index, verified.timestamp) == (0, None)


@pytest.mark.parametrize("name", ["x-hub-signature-256", "X-HUB-SIGNATURE-256"])
def test_header_names_are_taken_in_any_case(name: str) -> None:
    assert verify("github", [GITHUB_SECRET], {name: GITHUB_SIGNATURE}, GITHUB_BODY).key_index == 0


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        ({}, GITHUB_BODY, "missing_header"),
        ({"X-Hub-Signature-256": GITHUB_SIGNATURE}, GITHUB_BODY + b" ", "mismatch"),
        ({"X-Hub-Signature-256": GITHUB_SIGNATURE[:-1]}, GITHUB_BODY, "mismatch"),
        ({"X-Hub-Signature-256": GITHUB_SIGNATURE[:-1] + "8"}, GITHUB_BODY, "mismatch"),
        ({"X-Hub-Signature-256": GITHUB_SIGNATURE[7:]}, GITHUB_BODY, "bad_format"),
        ({"X-Hub-Signature-256": "sha256="}, GITHUB_BODY, "mismatch"),
        ({"X-Hub-Signature-256": "sha256=\udcff٣"}, GITHUB_BODY, "mismatch"),
        ({"X-Hub-Signature": GITHUB_SIGNATURE}, GITHUB_BODY, "missing_header"),
    ],
)
def test_github_refuses_what_github_did_not_sign(
    headers: dict[str, str], body: bytes, reason: str
) -> None:
    assert refused("github", [GITHUB_SECRET], headers, body) == reason


def test_zendesk_signs_timestamp_then_body() -> None:
    body = b'{"say":"hello"}'
    verified = verify("zendesk", [b"c2VjcmV0"], zendesk(body, b"c2VjcmV0"), body, now=NOW + 60)
    assert (verified.key_index, verified.timestamp) == (0, NOW)


def test_zendesk_as_an_independent_implementation_verifies_it() -> None:
    """cpazaras/zendesk-webhook-signature-verification-php, run with PHP 8.2, takes this one."""
    headers = {
        "X-Zendesk-Webhook-Signature": "mTrLvfDQAELovRYE9C2cvnB6pYXH+8sN3g8/8gGg8Kg=",
        "X-Zendesk-Webhook-Signature-Timestamp": STAMP,
    }
    body = b'{"say":"hello"}'
    assert verify("zendesk", [b"c2VjcmV0"], headers, body, now=NOW).key_index == 0
    assert refused("zendesk", [b"c2VjcmV0"], headers, body + b" ", now=NOW) == "mismatch"


def test_zendesk_takes_a_request_without_a_body() -> None:
    assert verify("zendesk", [b"k"], zendesk(b"", b"k"), b"", now=NOW).key_index == 0


@pytest.mark.parametrize("seconds", [-301, 301])
def test_zendesks_timestamp_may_not_be_far_from_now_either_way(seconds: int) -> None:
    headers = zendesk(b"{}", b"k")
    assert refused("zendesk", [b"k"], headers, b"{}", now=NOW + seconds) == "stale"
    wide = {"tolerance_seconds": 600}
    assert verify("zendesk", [b"k"], headers, b"{}", now=NOW + seconds, options=wide)


def test_zendesks_timestamp_is_part_of_what_is_signed() -> None:
    headers = {
        **zendesk(b"{}", b"k"),
        "X-Zendesk-Webhook-Signature-Timestamp": "2021-03-25T05:09:28Z",
    }
    assert refused("zendesk", [b"k"], headers, b"{}", now=NOW) == "mismatch"
    del headers["X-Zendesk-Webhook-Signature-Timestamp"]
    assert refused("zendesk", [b"k"], headers, b"{}", now=NOW) == "mismatch"


@pytest.mark.parametrize("stamp", ["", "yesterday", "١٦١٦٦٤٨٩٦٧", "9" * 5000, "2021-13-01"])
def test_a_signed_timestamp_that_is_no_time_is_refused(stamp: str) -> None:
    headers = zendesk(b"{}", b"k", stamp)
    assert refused("zendesk", [b"k"], headers, b"{}", now=NOW) == "bad_timestamp"


def test_hmac_sha256_signs_the_body_as_hex_in_x_signature_by_default() -> None:
    headers = {"X-Signature": oracle(b"k", b"body").hex().upper()}
    assert verify("hmac-sha256", [b"k"], headers, b"body").key_index == 0


def test_hmac_sha256_takes_header_prefix_encoding_and_template() -> None:
    options = {
        "header": "X-Acme-Sig",
        "prefix": "v1,",
        "encoding": "base64",
        "signed": "{method}:{url}:{timestamp}.{body}",
        "timestamp_header": "X-Acme-Time",
        "tolerance_seconds": 10,
    }
    message = b"POST:https://hooks.example/a?b=c:1616648967.\xff\x00"
    signature = "v1," + base64.b64encode(oracle(b"k", message)).decode()
    headers = {"X-Acme-Sig": signature, "X-Acme-Time": "1616648967"}
    given: Any = {"url": "https://hooks.example/a?b=c", "now": NOW, "options": options}
    verified = verify("hmac-sha256", [b"k"], headers, b"\xff\x00", **given)
    assert verified.timestamp == NOW
    for changed in ({"url": "https://other.example/a?b=c"}, {"method": "PUT"}):
        call = {**given, **changed}
        assert refused("hmac-sha256", [b"k"], headers, b"\xff\x00", **call) == "mismatch"


@pytest.mark.parametrize(
    ("scheme", "options", "named"),
    [
        ("hmac-sha256", {"signed": "{timestamp}"}, "options.signed"),
        ("hmac-sha256", {"signed": "{timestamp}.{body}"}, "timestamp_header"),
        ("hmac-sha256", {"timestamp_header": "X-Time"}, "options.signed"),
        ("hmac-sha256", {"signed": "{body}{secret}"}, "options.signed"),
        ("hmac-sha256", {"signed": "{body"}, "options.signed"),
        ("hmac-sha256", {"encoding": "base32"}, "options.encoding"),
        ("hmac-sha256", {"header": "X Sig"}, "options.header"),
        ("hmac-sha256", {"tolerance_seconds": float("nan")}, "options.tolerance_seconds"),
        ("zendesk", {"tolerance_seconds": 0}, "options.tolerance_seconds"),
        ("github", {"secret": "hunter2"}, "options.secret"),
        ("rot13", {}, "no such scheme"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name_and_never_shown(
    scheme: str, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(SignatureError, match=named) as caught:
        verifier(scheme, options)
    assert "hunter2" not in str(caught.value)


def test_an_older_secret_still_holds_and_is_told_apart() -> None:
    headers = {"X-Signature": oracle(b"old", b"body").hex()}
    assert verify("hmac-sha256", [b"new", b"old"], headers, b"body").key_index == 1


@pytest.mark.parametrize("secrets", [[], [b""], [b"new", b""]])
def test_without_a_secret_or_with_an_empty_one_nothing_verifies(secrets: list[bytes]) -> None:
    headers = {"X-Signature": oracle(b"", b"body").hex()}
    assert refused("hmac-sha256", secrets, headers, b"body") == "no_secret"


def test_every_secret_is_compared_whichever_one_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    class Counting:
        digest = staticmethod(stdlib_hmac.digest)

        @staticmethod
        def compare_digest(a: bytes, b: bytes) -> bool:
            compared.append(a)
            return stdlib_hmac.compare_digest(a, b)

    monkeypatch.setattr(request_module, "hmac", Counting)
    headers = {"X-Signature": oracle(b"a", b"body").hex()}
    verify("hmac-sha256", [b"a", b"b", b"c"], headers, b"body")
    assert len(compared) == 3


NAMES = (
    "X-Signature",
    "x-hub-signature-256",
    "X-Hub-Signature",
    "X-Zendesk-Webhook-Signature",
    "X-Zendesk-Webhook-Signature-Timestamp",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "svix-id",
    "svix-timestamp",
    "SVIX-SIGNATURE",
    "Stripe-Signature",
    "X-Shopify-Hmac-SHA256",
    "X-Slack-Signature",
    "X-Slack-Request-Timestamp",
    "X-Twilio-Signature",
    "X-Signature-Ed25519",
    "X-Signature-Timestamp",
    "Linear-Signature",
    "X-PagerDuty-Signature",
    "Authorization",
    "Host",
)
VALUES = (
    st.text(st.characters())
    | st.from_regex(r"\A(sha256=|sha1=|v0=|v1=)?[0-9a-fA-F]{64}\Z")
    | st.from_regex(r"\A(v1|v1a),[0-9a-zA-Z+/]{86}==( v1,x)?\Z")
    | st.from_regex(r"\At=[0-9]{10},v1=[0-9a-f]{64}\Z")
    | st.from_regex(r"\ABearer [A-Za-z0-9_-]{0,30}(\.[A-Za-z0-9_-]{0,30}){0,4}\Z")
    | st.datetimes().map(str)
    | st.integers(0, 2**40).map(str)
)
HEADERS = st.dictionaries(st.sampled_from(NAMES), VALUES)
JWKS = b'{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'
SECRETS = st.binary() | st.sampled_from(
    [b"whsec_c2VjcmV0", b"whpk_" + base64.b64encode(b"7" * 32), b"37" * 32, JWKS, b"[" * 5000]
)
BODIES = st.binary() | st.sampled_from([b"", b"{}", b"a=1&a=2&%ff=%zz", b"[" * 5000, b"&" * 2000])
URLS = st.text() | st.sampled_from(
    ["https://[", "http://h:1/?bodySHA256=" + "0" * 64, "https://user:p@h:99999/a?b#c"]
)


@pytest.mark.long
@pytest.mark.parametrize("scheme", [*SCHEMES, "none"])
@settings(max_examples=15)
@given(
    secrets=st.lists(SECRETS, max_size=3),
    headers=HEADERS,
    body=BODIES,
    url=URLS,
    now=st.floats(0, 2e10),
    options=st.dictionaries(st.text(max_size=8), st.integers() | st.text()) | st.none(),
)
def test_whatever_comes_in_it_is_refused_as_a_signature_error_and_nothing_else(
    scheme: str,
    secrets: list[bytes],
    headers: dict[str, str],
    body: bytes,
    url: str,
    now: float,
    options: dict[str, Any] | None,
) -> None:
    with pytest.raises(SignatureError):
        verify(scheme, secrets, headers, body, url=url, now=now, options=options)


@given(st.binary(min_size=1), st.binary(), st.integers(min_value=0))
def test_a_changed_bit_anywhere_in_the_body_breaks_the_signature(
    secret: bytes, body: bytes, position: int
) -> None:
    headers = {"X-Signature": oracle(secret, body).hex()}
    assert verify("hmac-sha256", [secret], headers, body).key_index == 0
    changed = bytearray(body or b"\0")
    changed[position % len(changed)] ^= 1 if body else 0
    assert refused("hmac-sha256", [secret], headers, bytes(changed)) == "mismatch"
