"""Standard Webhooks, as Svix and others sign: ids, versions, keys of both kinds."""

from __future__ import annotations

import base64
import dataclasses
import hmac
from datetime import UTC, datetime

import nacl.signing
import pytest
import standardwebhooks
from support.signature_checks import BODY, NOW, SIGNER, check, discord, refused
from support.vectors import Vector

from ingress.schemes import Verified, verify

WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WHPK = b"whpk_" + base64.b64encode(SIGNER.verify_key.encode())
TEXT = '{"type":"user.created"}'


# The package `standardwebhooks` is the oracle of v1, PyNaCl of v1a.


def standard(secret: str = WHSEC, prefix: str = "webhook") -> Vector:
    at = datetime.fromtimestamp(NOW, UTC)
    values = {
        "id": "msg_1",
        "timestamp": str(NOW),
        "signature": standardwebhooks.Webhook(secret).sign("msg_1", at, TEXT),
    }
    headers = {f"{prefix}-{name}": value for name, value in values.items()}
    return Vector("standard-webhooks", secret.encode(), headers, TEXT.encode(), NOW)


def asymmetric() -> Vector:
    message = f"msg_1.{NOW}.{TEXT}".encode()
    signature = "v1a," + base64.b64encode(SIGNER.sign(message).signature).decode()
    return dataclasses.replace(
        standard(), secret=WHPK, headers={**standard().headers, "webhook-signature": signature}
    )


@pytest.mark.parametrize("seconds", [-300, 300])
def test_five_minutes_are_still_taken(seconds: int) -> None:
    assert check(standard(), now=NOW + seconds).timestamp == NOW
    public = SIGNER.verify_key.encode().hex().encode()
    vector = Vector("discord", public, discord(BODY, str(NOW)), BODY, NOW)
    assert check(vector, now=NOW + seconds).timestamp == NOW


def test_without_an_id_a_signature_is_not_enough() -> None:
    key = base64.b64decode(WHSEC.removeprefix("whsec_"))
    mac = base64.b64encode(hmac.digest(key, f".{NOW}.{TEXT}".encode(), "sha256")).decode()
    headers = {"webhook-timestamp": str(NOW), "webhook-signature": f"v1,{mac}"}
    assert refused(standard(), headers=headers) == "missing_header"


def test_a_signed_id_that_is_no_text_is_refused_and_not_stored() -> None:
    odd = b"msg_\xff".decode("utf-8", "surrogateescape")
    signed = b".".join((odd.encode("utf-8", "surrogatepass"), str(NOW).encode(), TEXT.encode()))
    mac = hmac.digest(base64.b64decode(WHSEC.removeprefix("whsec_")), signed, "sha256")
    signature = "v1," + base64.b64encode(mac).decode()
    headers = standard().headers | {"webhook-id": odd, "webhook-signature": signature}
    assert refused(standard(), headers=headers) == "bad_format"


@pytest.mark.parametrize("prefix", ["webhook", "svix"])
def test_standard_webhooks_takes_what_its_own_package_signs(prefix: str) -> None:
    assert check(standard(prefix=prefix)) == Verified(0, NOW, "msg_1")
    assert check(standard(WHSEC.removeprefix("whsec_"), prefix)).key_index == 0
    for name in standard(prefix=prefix).headers:
        changed = {**standard(prefix=prefix).headers, name: "1"}
        assert refused(standard(prefix=prefix), headers=changed) in {"mismatch", "bad_format"}


def test_the_documented_example_of_svix_holds() -> None:
    """docs.svix.com, "Verifying webhooks manually"; the same is in standardwebhooks' tests."""
    vector = Vector(
        "standard-webhooks",
        b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        {
            "svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "svix-timestamp": "1614265330",
            "svix-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
        1_614_265_330,
    )
    assert check(vector).message_id == "msg_p5jXN8AQM9LWM0D4loKWxJek"


@pytest.mark.parametrize("seconds", [-301, 301])
def test_standard_webhooks_takes_five_minutes_both_ways(seconds: int) -> None:
    assert refused(standard(), now=NOW + seconds) == "stale"


def test_standard_webhooks_takes_ed25519_under_a_public_key() -> None:
    assert check(asymmetric()) == Verified(0, NOW, "msg_1")
    assert refused(asymmetric(), body=TEXT.encode() + b" ") == "mismatch"
    other = b"whpk_" + base64.b64encode(nacl.signing.SigningKey(b"\x08" * 32).verify_key.encode())
    assert refused(asymmetric(), secret=other) == "mismatch"


def test_one_of_several_signatures_suffices_under_one_of_several_secrets() -> None:
    v1, v1a = standard().headers["webhook-signature"], asymmetric().headers["webhook-signature"]
    wrong = "v1," + base64.b64encode(bytes(32)).decode()
    headers = {**standard().headers, "webhook-signature": f"{wrong} v2,x {v1a} {v1}"}
    for secrets, index in (([WHPK, b"x" * 4], 0), ([b"abcd", WHSEC.encode(), WHPK], 1)):
        found = verify("standard-webhooks", secrets, headers, TEXT.encode(), now=NOW)
        assert found.key_index == index


def test_a_public_key_is_never_an_hmac_key() -> None:
    """A public key is known to anybody: as an HMAC key it would let anybody sign."""
    message = f"msg_1.{NOW}.{TEXT}".encode()
    raw = SIGNER.verify_key.encode()
    for key in (raw, WHPK, WHPK[5:]):
        mac = base64.b64encode(hmac.digest(key, message, "sha256")).decode()
        for version in ("v1", "v1a"):
            headers = {**standard().headers, "webhook-signature": f"{version},{mac}"}
            assert refused(asymmetric(), headers=headers) == "mismatch"


def test_a_signature_counts_under_its_own_version_alone() -> None:
    for vector, version in ((standard(), "v1a"), (asymmetric(), "v1")):
        text = vector.headers["webhook-signature"].split(",")[1]
        headers = {**vector.headers, "webhook-signature": f"{version},{text}"}
        assert refused(vector, headers=headers) == "mismatch"


def test_an_unsigned_webhook_id_beside_signed_svix_headers_is_not_believed() -> None:
    headers = {**standard(prefix="svix").headers, "webhook-id": "msg_other"}
    assert check(standard(), headers=headers).message_id == "msg_1"


def test_signatures_past_the_sixteenth_are_not_tried() -> None:
    good = standard().headers["webhook-signature"]
    for before, holds in ((15, True), (16, False)):
        headers = {**standard().headers, "webhook-signature": "v1,x " * before + good}
        if holds:
            assert check(standard(), headers=headers).key_index == 0
        else:
            assert refused(standard(), headers=headers) == "mismatch"


@pytest.mark.parametrize("secret", [b"whsec_!", b"whpk_YQ==", b"whsec_", b"whsk_YQ=="])
def test_a_standard_secret_that_is_none_verifies_nothing(secret: bytes) -> None:
    assert refused(standard(), secret=secret) == "bad_secret"
