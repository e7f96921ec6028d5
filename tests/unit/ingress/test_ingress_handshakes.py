"""Slack and Discord are answered when they ask, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.schemes import SCHEMES, Answer, handshake

SLACK = b'{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",'
SLACK += b'"type":"url_verification"}'


def test_slacks_challenge_is_answered() -> None:
    challenge = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"
    assert handshake("slack", SLACK) == Answer(200, f'{{"challenge":"{challenge}"}}'.encode())


@pytest.mark.parametrize("body", [b'{"type":1}', b'{"id":"1","type":1,"version":1,"token":"t"}'])
def test_discords_ping_of_interactions_is_answered(body: bytes) -> None:
    assert handshake("discord", body) == Answer(200, b'{"type":1}')


def test_discords_ping_of_webhook_events_is_answered_without_a_body() -> None:
    assert handshake("discord", b'{"version":1,"type":0}') == Answer(204, b"")


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
        ("github", SLACK),
        ("hmac-sha256", b'{"type":1}'),
    ],
)
def test_an_event_is_no_handshake(scheme: str, body: bytes) -> None:
    assert handshake(scheme, body) is None


@given(st.sampled_from([*SCHEMES]), st.binary() | st.sampled_from([b"[" * 9000, b"[1]", b"null"]))
def test_no_body_breaks_it(scheme: str, body: bytes) -> None:
    assert handshake(scheme, body) is None
