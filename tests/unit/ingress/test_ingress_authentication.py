"""Who is let in, and what a stranger can tell from the answer."""

from __future__ import annotations

import base64
import hmac
import time

import pytest
from multidict import CIMultiDict
from support.ingress_app import DISCORD_SIGNER, Edge, running
from support.webhooks import signed, source, tenant, ticket

from ingress.rates import tarpit
from ingress.receive.authentication import OLD_KEYS
from streams.serde.codec import ENVELOPE, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord


async def test_nobody_can_tell_why_a_request_is_not_authorized(edge: Edge) -> None:
    body = b'{"id":"e1"}'
    answers = []
    for path, headers in (
        ("/v1/hooks/acme/shop", signed(body, b"wrong")),
        ("/v1/hooks/acme/shop", {}),
        ("/v1/hooks/acme/nothing", signed(body)),
        ("/v1/hooks/nobody/shop", signed(body)),
        ("/v1/hooks/gone/shop", signed(body)),
        ("/v1/hooks/ac%2Fme/shop", signed(body)),
        ("/v1/hooks/bolt/rotated", signed(body, b"new")),
        ("/v1/hooks/acme/unmounted", signed(body)),
    ):
        status, answer, sent = await edge.post(path, body, headers)
        del sent["Date"]
        answers.append((status, answer, sent))
    assert answers == [answers[0]] * len(answers)
    assert answers[0][0] == 401
    assert answers[0][2]["Content-Type"] == "application/problem+json"
    assert answers[0][1]["type"] == "urn:tidegate:problem:unauthorized"
    assert edge.log.records == []


def slack_signed(body: bytes, secret: bytes = b"slack") -> dict[str, str]:
    stamp = str(int(time.time()))
    mac = hmac.new(secret, f"v0:{stamp}:".encode() + body, "sha256").hexdigest()
    return {"X-Slack-Signature": f"v0={mac}", "X-Slack-Request-Timestamp": stamp}


async def test_a_handshake_is_answered_once_its_signature_holds_and_is_no_event(edge: Edge) -> None:
    body = b'{"type":"url_verification","challenge":"c"}'
    refused = await edge.post("/v1/hooks/acme/slack", body, slack_signed(body, b"other"))
    status, answer, headers = await edge.post("/v1/hooks/acme/slack", body, slack_signed(body))
    assert (refused[0], status, answer) == (401, 200, {"challenge": "c"})
    assert headers["Content-Type"] == "application/json"
    stamp, ping = str(int(time.time())), b'{"type":1}'
    signature = DISCORD_SIGNER.sign(stamp.encode() + ping).signature.hex()
    signed_ping = {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": stamp}
    assert (await edge.post("/v1/hooks/acme/discord", ping, signed_ping))[:2] == (200, {"type": 1})
    wrong = {**signed_ping, "X-Signature-Ed25519": "00" * 64}
    assert (await edge.post("/v1/hooks/acme/discord", ping, wrong))[0] == 401
    assert edge.log.records == []
    async with edge.client.get(f"{edge.url}/metrics") as response:
        assert 'tidegate_ingress_requests_total{outcome="handshake"}' in await response.text()


async def test_twilio_signs_the_public_url_that_a_proxy_tells_of(edge: Edge) -> None:
    path = "/v1/hooks/acme/twilio"
    public = edge.url.replace("http://", "https://") + path
    signature = base64.b64encode(
        hmac.digest(b"twilio", f"{public}MessageSidSM1MessageStatussent".encode(), "sha1")
    ).decode()
    headers = {"X-Twilio-Signature": signature, "Content-Type": "application/x-www-form-urlencoded"}
    body = b"MessageStatus=sent&MessageSid=SM1"
    assert (await edge.post(path, body, headers))[0] == 401
    for untrue in ("http", "http, https", "ftp", ",https"):
        assert (await edge.post(path, body, {**headers, "X-Forwarded-Proto": untrue}))[0] == 401
    status, _, _ = await edge.post(path, body, {**headers, "X-Forwarded-Proto": "https"})
    assert status == 202
    [received] = edge.log.on("events.received")
    assert ENVELOPE.decode(received.value).event_type == "message.sent"


@pytest.mark.parametrize(
    "told",
    [
        [("X-Forwarded-Proto", "https,http")],
        [("X-Forwarded-Proto", "HTTPS , http")],
        [("X-Forwarded-Proto", "https"), ("X-Forwarded-Proto", "http")],
        [("Forwarded", 'for=192.0.2.1;Proto=HTTPS;by="[::1]", for=10.0.0.1;proto=http')],
        [("Forwarded", 'proto="https"'), ("Forwarded", "proto=http")],
        [("X-Forwarded-Proto", ""), ("Forwarded", "proto=https")],
    ],
)
async def test_the_outermost_proxy_names_the_scheme_of_the_signed_url(
    edge: Edge, told: list[tuple[str, str]]
) -> None:
    path, body = "/v1/hooks/acme/twilio", b"MessageStatus=sent&MessageSid=SM1"
    public = edge.url.replace("http://", "https://") + path
    mac = hmac.digest(b"twilio", f"{public}MessageSidSM1MessageStatussent".encode(), "sha1")
    headers = CIMultiDict({"X-Twilio-Signature": base64.b64encode(mac).decode()})
    headers.extend(told)
    assert (await edge.post(path, body, headers))[0] == 202


async def test_both_secrets_of_a_rotation_hold(edge: Edge) -> None:
    for number, secret in enumerate((b"new", b"old")):
        body = b'{"id":"%d"}' % number
        status, _, _ = await edge.post("/v1/hooks/acme/rotated", body, signed(body, secret))
        assert status == 202


async def test_only_verified_deliveries_count_for_a_rate_and_429_says_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tarpit, "MOST_SECONDS", 0.01)
    asked: list[str] = []

    def wait(tenant_id: str) -> float:
        asked.append(tenant_id)
        return 0.0 if len(asked) == 1 else 6.2

    async with running(wait=wait) as edge:
        path, body = "/v1/hooks/acme/shop", b'{"id":"e1"}'
        for headers in ({}, signed(body, b"wrong")):
            assert (await edge.post(path, body, headers))[0] == 401
        assert (await edge.post("/v1/hooks/nobody/shop", body, signed(body)))[0] == 401
        assert asked == []
        assert (await edge.post(path, body, signed(body)))[0] == 202
        status, answer, sent = await edge.post(path, b'{"id": NaN}', signed(b'{"id": NaN}'))
        assert (status, answer["type"]) == (429, "urn:tidegate:problem:rate-limited")
        assert sent["Retry-After"] == "7"
        assert asked == ["acme", "acme"]
        assert len(edge.log.on("events.received")) == 1


async def test_only_an_older_secret_counts_as_old(edge: Edge) -> None:
    counter = OLD_KEYS.labels("hmac-sha256")._value
    for secret, more in ((b"new", 0), (b"old", 1)):
        before, body = counter.get(), b'{"id":"%s"}' % secret
        await edge.post("/v1/hooks/acme/rotated", body, signed(body, secret))
        assert counter.get() - before == more


async def test_retry_after_is_a_second_at_least() -> None:
    async with running(wait=lambda _tenant_id: 0.005) as edge:
        body = b'{"id":"e1"}'
        status, _, sent = await edge.post("/v1/hooks/acme/shop", body, signed(body))
        assert (status, sent["Retry-After"]) == (429, "1")


@pytest.mark.parametrize("type_", ["application/json; charset=utf-8", "application/x.v2+json"])
async def test_malformed_json_is_told_only_to_who_signed_it(edge: Edge, type_: str) -> None:
    body, json = b'{"id": NaN}', {"Content-Type": type_}
    unsigned = await edge.post("/v1/hooks/acme/shop", body, json)
    status, answer, _ = await edge.post("/v1/hooks/acme/shop", body, {**signed(body), **json})
    assert unsigned[0] == 401
    assert (status, answer["type"]) == (400, "urn:tidegate:problem:malformed-body")
    assert edge.log.records == []


async def test_a_header_that_comes_twice_counts_as_none(edge: Edge) -> None:
    body = b'{"id":"twice"}'
    good, bad = signed(body)["X-Signature"], "0" * 64
    for pair in ((good, bad), (bad, good), (good, good)):
        twice = CIMultiDict(("X-Signature", each) for each in pair)
        status, _, _ = await edge.post("/v1/hooks/acme/shop", body, twice)
        assert status == 401
    other = CIMultiDict([*signed(body).items(), ("X-Request-Id", "a"), ("X-Request-Id", "b")])
    assert (await edge.post("/v1/hooks/acme/shop", body, other))[0] == 202
    [received] = edge.log.on("events.received")
    assert ENVELOPE.decode(received.value).request_id is None


async def test_an_erased_tenants_deliveries_are_not_authorized_for_good(edge: Edge) -> None:
    erasure = TENANT.encode(TenantRecord("acme", "erasure", "", True, "{}"))
    key = tenant_key("acme", "erasure", "")
    edge.log.book.apply(key, erasure)  # it got past the check of its signature just before
    assert (await edge.deliver("acme", ticket("e1")))[0] == 401
    edge.sources.table.apply(key, erasure)
    edge.sources.table.apply(*tenant("acme"))
    edge.sources.table.apply(*source("acme", "zendesk", "zendesk"))
    assert (await edge.deliver("acme", ticket("e2")))[0] == 401
    assert (await edge.deliver("bolt", ticket("e1")))[0] == 202
    assert len(edge.log.on("payloads")) == 1
