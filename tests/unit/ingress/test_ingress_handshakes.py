"""A vendor is answered when it asks, and nobody else: signed questions, and those by GET."""

from __future__ import annotations

import hmac
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from support.ingress_app import Edge
from support.sender_rules import BODY_RULES, SECRET, TIME_RULES
from support.webhooks import source

from ingress.schemes import SCHEMES, Answer, handshake

SLACK = b'{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",'
SLACK += b'"type":"url_verification"}'
ZOOM = b'{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,'
ZOOM += b'"event":"endpoint.url_validation"}'
TWITCH = b'{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{"id":"f1"}}'


def asked(scheme: str, body: bytes) -> Answer | None:
    return handshake(scheme, body, b"secret")


def test_slacks_challenge_is_answered() -> None:
    challenge = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"
    assert asked("slack", SLACK) == Answer(200, f'{{"challenge":"{challenge}"}}'.encode())


@pytest.mark.parametrize("body", [b'{"type":1}', b'{"id":"1","type":1,"version":1,"token":"t"}'])
def test_discords_ping_of_interactions_is_answered(body: bytes) -> None:
    assert asked("discord", body) == Answer(200, b'{"type":1}')


def test_discords_ping_of_webhook_events_is_answered_without_a_body() -> None:
    assert asked("discord", b'{"version":1,"type":0}') == Answer(204, b"")


def test_zooms_url_validation_is_answered_with_the_tokens_mac() -> None:
    mac = hmac.new(b"secret", b"qgg8vlvZRS6UYooatFL8Aw", "sha256").hexdigest()
    expected = {"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": mac}
    answer = asked("zoom", ZOOM)
    assert answer is not None
    assert (answer.status, orjson.loads(answer.body)) == (200, expected)


def test_twitchs_challenge_is_answered_as_plain_text() -> None:
    expected = Answer(200, b"pogchamp-kappa-360noscope-vohiyo", content_type="text/plain")
    assert asked("twitch", TWITCH) == expected


def test_xeros_intent_to_receive_is_answered() -> None:
    empty = b'{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4N0m"}'
    assert asked("xero", empty) == Answer(200, b"")


@pytest.mark.parametrize(
    ("scheme", "body"),
    [
        ("discord", b'{"version":1,"type":1,"event":{"type":"ENTITLEMENT_CREATE"}}'),
        ("discord", b'{"type":2,"id":"1"}'),
        ("discord", b'{"type":true}'),
        ("discord", b'{"type":"1"}'),
        ("discord", SLACK),
        ("slack", b'{"type":1}'),
        ("slack", b'{"type":"url_verification"}'),
        ("slack", b'{"type":"url_verification","challenge":{"a":1}}'),
        ("slack", b'{"type":"event_callback","challenge":"x"}'),
        ("slack", b"payload=%7B%22type%22%3A1%7D"),
        ("slack", SLACK[:-1] + b',"pad":"' + b"x" * 16_384 + b'"}'),
        ("zoom", ZOOM.replace(b"url_validation", b"x")),
        ("zoom", ZOOM.replace(b'"qgg8vlvZRS6UYooatFL8Aw"', b'"<script>alert(1)</script> "')),
        ("zoom", b'{"event":"endpoint.url_validation","payload":[]}'),
        ("twitch", TWITCH[:-1] + b',"event":{}}'),
        ("twitch", b'{"challenge":"a"}'),
        ("twitch", TWITCH.replace(b"pogchamp", b"p" * 513)),
        ("xero", b'{"events":[{}]}'),
        ("github", SLACK),
        ("github", ZOOM),
        ("hmac-sha256", b'{"type":1}'),
    ],
)
def test_an_event_is_no_handshake(scheme: str, body: bytes) -> None:
    assert asked(scheme, body) is None


@given(st.sampled_from([*SCHEMES]), st.binary() | st.sampled_from([b"[" * 9000, b"[1]", b"null"]))
def test_no_body_breaks_it(scheme: str, body: bytes) -> None:
    answer = asked(scheme, body)  # hypothesis may find a vendor's real question
    assert answer is None or answer.status in {200, 204}


@pytest.mark.parametrize(
    ("scheme", "body"), [("zoom", ZOOM), ("twitch", TWITCH), ("xero", b'{"events":[]}')]
)
async def test_a_question_by_post_is_answered_only_if_its_signature_holds(
    edge: Edge, scheme: str, body: bytes
) -> None:
    edge.sources.table.apply(*source("acme", "vendor", scheme, [b"other", SECRET]))
    rule, url = (BODY_RULES | TIME_RULES)[scheme], f"{edge.url}/v1/hooks/acme/vendor"
    async with edge.client.post(url, data=body, headers=rule(body, time.time())) as answer:
        assert answer.status == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        if scheme == "zoom":
            mac = hmac.new(SECRET, b"qgg8vlvZRS6UYooatFL8Aw", "sha256").hexdigest()
            assert (await answer.json())["encryptedToken"] == mac, "under the secret that held"
    async with edge.client.post(url, data=body) as answer:
        assert answer.status == 401
        assert b"qgg8vlv" not in await answer.read()
    assert edge.log.records == []


META = {"hub.mode": "subscribe", "hub.verify_token": "meatyham", "hub.challenge": "1158201444"}


async def ask(
    edge: Edge, name: str, method: str = "GET", params: Any = None, headers: Any = None
) -> tuple[int, bytes, CIMultiDict[str]]:
    url = f"{edge.url}/v1/hooks/acme/{name}"
    async with edge.client.request(method, url, params=params, headers=headers) as answer:
        return answer.status, await answer.read(), CIMultiDict(answer.headers)


def put(edge: Edge, scheme: str, **options: str) -> None:
    edge.sources.table.apply(*source("acme", scheme, scheme, [SECRET], options=options))


async def test_metas_challenge_is_repeated_as_plain_text_to_who_knows_the_verify_token(
    edge: Edge,
) -> None:
    put(edge, "meta", verify_token="meatyham")
    status, body, headers = await ask(edge, "meta", params=META)
    assert (status, body, headers["Content-Type"]) == (200, b"1158201444", "text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"
    for changed in (
        META | {"hub.verify_token": "other"},
        META | {"hub.verify_token": ""},
        META | {"hub.mode": "unsubscribe"},
        META | {"hub.challenge": "<script>alert(1)</script> "},
        META | {"hub.challenge": "x" * 513},
        [*META.items(), ("hub.challenge", "2")],
    ):
        assert (await ask(edge, "meta", params=changed))[0] == 405
    assert (await ask(edge, "meta", "HEAD", META))[0] == 405
    put(edge, "meta")
    assert (await ask(edge, "meta", params=META))[0] == 405, "no token was set"
    assert (await ask(edge, "meta", params=META | {"hub.verify_token": ""}))[0] == 405


async def test_oktas_challenge_is_answered_in_json(edge: Edge) -> None:
    put(edge, "okta")
    challenge = {"X-Okta-Verification-Challenge": "a1b2"}
    status, body, headers = await ask(edge, "okta", headers=challenge)
    assert (status, orjson.loads(body)) == (200, {"verification": "a1b2"})
    assert headers["Content-Type"] == "application/json"
    twice = [("X-Okta-Verification-Challenge", "a"), ("X-Okta-Verification-Challenge", "b")]
    for wrong in ({}, {"X-Okta-Verification-Challenge": "a b"}, twice):
        assert (await ask(edge, "okta", headers=wrong))[0] == 405


async def test_dropboxs_challenge_is_repeated_as_plain_text(edge: Edge) -> None:
    put(edge, "dropbox")
    status, body, headers = await ask(edge, "dropbox", params={"challenge": "<b>"})
    assert (status, body, headers["Content-Type"]) == (200, b"<b>", "text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_woocommerces_ping_is_answered_without_a_signature(edge: Edge) -> None:
    put(edge, "woocommerce")
    for scheme in ("woocommerce", "github", "nothing"):
        if scheme == "github":
            put(edge, scheme)
        for body in (b"webhook_id=17", b"webhook_id=17&x=1", b"webhook_id=", b'{"webhook_id":17}'):
            url = f"{edge.url}/v1/hooks/acme/{scheme}"
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            async with edge.client.post(url, data=body, headers=form) as answer:
                pinged = scheme == "woocommerce" and body == b"webhook_id=17"
                assert answer.status == (200 if pinged else 401)
                assert not pinged or await answer.read() == b""
    assert edge.log.records == []
    assert (await ask(edge, "woocommerce"))[0] == 405


@pytest.mark.parametrize("scheme", ["hmac-sha256", "ed25519", "jwt", "token"])
async def test_a_validation_of_cloudevents_is_granted_to_the_origin_that_the_source_names(
    edge: Edge, scheme: str
) -> None:
    options = {"webhook_origin": "eventgrid.azure.net"}
    edge.sources.table.apply(*source("acme", scheme, scheme, [SECRET], options=options))
    wanted = {"WebHook-Request-Origin": "EventGrid.azure.net"}
    status, body, headers = await ask(edge, scheme, "OPTIONS", headers=wanted)
    assert (status, body) == (200, b"")
    assert headers["WebHook-Allowed-Origin"] == "eventgrid.azure.net"
    assert "Access-Control-Allow-Origin" not in headers
    stranger = {"WebHook-Request-Origin": "evil.example"}
    assert (await ask(edge, scheme, "OPTIONS", headers=stranger))[0] == 405
    put(edge, scheme)
    assert (await ask(edge, scheme, "OPTIONS", headers=wanted))[0] == 405


async def test_a_source_of_another_scheme_answers_no_question(edge: Edge) -> None:
    questions = META | {"challenge": "x"}
    headers = {"X-Okta-Verification-Challenge": "a1b2", "WebHook-Request-Origin": "a.example"}
    for scheme in SCHEMES:
        if scheme not in {"meta", "okta", "dropbox"}:
            put(edge, scheme)
            for method in ("GET", "OPTIONS", "PUT", "DELETE"):
                assert (await ask(edge, scheme, method, questions, headers))[0] == 405
    assert (await ask(edge, "nothing", params=questions, headers=headers))[0] == 405
    edge.sources.ready = False
    assert (await ask(edge, "meta", params=META))[0] == 503


@pytest.mark.parametrize("header", [("Content-Encoding", "gzip"), ("Content-Type", "image/png")])
async def test_a_request_that_is_refused_for_its_headers_tells_nothing_of_a_source(
    edge: Edge, header: tuple[str, str]
) -> None:
    put(edge, "dropbox")
    answers = [await ask(edge, name, headers=dict([header])) for name in ("dropbox", "nothing")]
    assert answers[0][:2] == answers[1][:2]
