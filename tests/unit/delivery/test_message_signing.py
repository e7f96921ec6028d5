"""What we sign holds for the public libraries and for our own ingress."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

import nacl.signing
import pytest
import standardwebhooks
import svix.webhooks
from hypothesis import given, settings
from hypothesis import strategies as st
from support.outgoing import rendered

from ingress.schemes import verify
from ingress.schemes.normalize import Normalizer
from streams.delivery.message.signing import (
    check_signing_secret,
    headers,
    new_key_pair,
    new_secret,
    public_key,
)
from streams.errors import SignatureError

AT = 1_614_265_330_999
BODY = b'{"test": 2432232314}'
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
WHSEC = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WHSK = (
    b"whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)
WHPK = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
V1 = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
V1A = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
"""The keys and signatures of the reference: `v1` is the example in Svix's documents and in the
tests of Standard Webhooks, `v1a` the one in the spec and in the tests of Svix's server."""


def secret_of(size: int) -> bytes:
    return b"whsec_" + base64.b64encode(b"k" * size)


def test_the_signatures_of_the_reference_come_out() -> None:
    assert headers(MESSAGE_ID, AT, BODY, [WHSEC]) == {
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": V1,
    }
    assert headers(MESSAGE_ID, AT, BODY, [WHSK])["webhook-signature"] == V1A
    assert public_key(WHSK) == WHPK


def test_a_rotation_signs_with_each_secret_newest_first() -> None:
    found = headers(MESSAGE_ID, AT, BODY, [WHSK, WHSEC])
    assert found["webhook-signature"] == f"{V1A} {V1}"
    for secret in (WHSEC, WHPK.encode()):
        verify("standard-webhooks", [secret], found, BODY, now=AT / 1000)


@pytest.mark.parametrize("webhook", [standardwebhooks.Webhook, svix.webhooks.Webhook])
def test_the_public_libraries_accept_each_of_several_signatures(
    webhook: type[standardwebhooks.Webhook] | type[svix.webhooks.Webhook],
) -> None:
    old, new = new_secret(), new_secret()
    private, _ = new_key_pair()
    secrets = [private.encode(), new.encode(), old.encode()]
    found = headers("evt_1", int(time.time() * 1000), BODY, secrets)
    for secret in (old, new):
        webhook(secret).verify(BODY, found)
    wrong = webhook(new_secret())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        wrong.verify(BODY, found)


def test_another_implementation_of_ed25519_accepts_a_new_pair() -> None:
    private, public = new_key_pair()
    check_signing_secret(private.encode())
    assert public_key(private.encode()) == public
    found = headers("evt_1", AT, BODY, [private.encode()])
    signature = base64.b64decode(found["webhook-signature"].removeprefix("v1a,"))
    point = base64.b64decode(public.removeprefix("whpk_"))
    nacl.signing.VerifyKey(point).verify(b"evt_1.1614265330." + BODY, signature)


def test_new_secrets_are_of_32_bytes_and_never_the_same() -> None:
    assert len(base64.b64decode(new_secret().removeprefix("whsec_"))) == 32
    assert len({new_secret() for _ in range(10)} | set(new_key_pair())) == 12
    check_signing_secret(new_secret().encode())
    assert public_key(new_secret().encode()) is None


@settings(deadline=None)
@given(
    st.binary(max_size=100),
    st.from_regex(r"[!-\-/-~]{1,40}", fullmatch=True),
    st.integers(0, 4_000_000_000_000),
)
def test_our_ingress_accepts_any_body(body: bytes, message_id: str, at: int) -> None:
    found = headers(message_id, at, body, [WHSK, WHSEC])
    for secret in (WHSEC, WHPK.encode()):
        held = verify("standard-webhooks", [secret], found, body, now=at / 1000)
        assert held.message_id == message_id
        assert held.timestamp == at // 1000
        with pytest.raises(SignatureError):
            verify("standard-webhooks", [secret], found, body + b" ", now=at / 1000)


@pytest.mark.parametrize("data", [b'{"id": "other"}', b"null", b"a=1", b""])
def test_our_ingress_takes_the_message_id_as_the_dedup_key(data: bytes) -> None:
    body = rendered(data=data)
    found = headers("evt_1", AT, body, [WHSEC])
    held = verify("standard-webhooks", [WHSEC], found, body, now=AT / 1000)
    event = Normalizer("standard-webhooks", {}).normalize({}, body, held)
    assert (event.dedup_key, event.event_type) == ("evt_1", "ticket.created")


def test_the_libraries_sign_as_we_do() -> None:
    at = datetime.fromtimestamp(AT // 1000, UTC)
    signed = standardwebhooks.Webhook(WHSEC.decode()).sign(MESSAGE_ID, at, BODY.decode())
    assert signed == svix.webhooks.Webhook(WHSEC.decode()).sign(MESSAGE_ID, at, BODY.decode()) == V1


@pytest.mark.parametrize(
    "secret", [secret_of(24), secret_of(64), WHSK, b"whsk_" + b"A" * 43 + b"="]
)
def test_a_secret_as_the_spec_wants_it_is_taken(secret: bytes) -> None:
    check_signing_secret(secret)


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        (b"", "begin with whsec_ or whsk_"),
        (b"k" * 32, "begin with whsec_ or whsk_"),
        (secret_of(23), "23 bytes"),
        (secret_of(65), "65 bytes"),
        (b"whsec_!", "not base64"),
        (b"whsec_", "empty"),
        (WHPK.encode(), "public key"),
        (WHSK[:-4] + b"AA==", "its own public key"),
        (b"whsk_" + b"ab" * 32, "base64 after whsk_"),
        (b"whsk_YQ==", "1 bytes"),
    ],
)
def test_another_secret_is_refused_and_not_repeated(secret: bytes, told: str) -> None:
    with pytest.raises(SignatureError, match=told) as caught:
        check_signing_secret(secret)
    assert caught.value.reason == "bad_secret"
    assert len(secret) < 8 or secret.decode()[5:] not in str(caught.value)
    with pytest.raises(SignatureError, match=told):
        headers("evt_1", AT, BODY, [WHSEC, secret])


@pytest.mark.parametrize("message_id", ["", "a.b", "a b", "a\n", "\u00e9", "a\r\nX: 1"])
def test_an_id_that_makes_signatures_ambiguous_is_refused(message_id: str) -> None:
    with pytest.raises(SignatureError, match="message id"):
        headers(message_id, AT, BODY, [WHSEC])


def test_nothing_is_sent_unsigned() -> None:
    with pytest.raises(SignatureError, match="no secret"):
        headers("evt_1", AT, BODY, [])
