"""An accepted event is answered with what its vendor takes for a success."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest
from support.ingress_app import DISCORD_SIGNER, Edge
from support.sender_rules import BODY_RULES, SECRET, TOKEN_RULES
from support.webhooks import source

from ingress.samples import sample
from ingress.schemes import SignedRequest, sign
from ingress.schemes.senders import SENDERS
from streams.cli.delivery import posted

NEEDS_200 = [*sorted(SENDERS.keys() - {"sendgrid", "telnyx"}), "linear", "mailgun"]
SIGNS_ITS_URL = {"hubspot", "square"}


async def post(edge: Edge, scheme: str, request: SignedRequest) -> tuple[int, bytes, Any]:
    url = f"{edge.url}/v1/hooks/acme/{scheme}"
    async with edge.client.post(url, data=request.body, headers=request.headers) as answer:
        return answer.status, await answer.read(), answer.headers


def delivery(edge: Edge, scheme: str) -> SignedRequest:
    edge.sources.table.apply(*source("acme", scheme, scheme, [SECRET]))
    made, url = sample(scheme, None, time.time()), f"{edge.url}/v1/hooks/acme/{scheme}"
    return sign(scheme, SECRET, SignedRequest(made.headers, made.body, url, "POST", time.time()))


@pytest.mark.parametrize("scheme", NEEDS_200)
async def test_a_vendor_that_repeats_what_is_not_answered_200_is_answered_200(
    edge: Edge, scheme: str
) -> None:
    sent = delivery(edge, scheme)
    first, again = await post(edge, scheme, sent), await post(edge, scheme, sent)
    assert (first[0], again[0]) == (200, 200)
    if scheme not in {"xero", "okta"}:
        assert orjson.loads(first[1])["status"] == "accepted"


@pytest.mark.parametrize("scheme", ["xero", "okta"])
async def test_a_vendor_that_wants_no_body_gets_the_answer_in_a_header(
    edge: Edge, scheme: str
) -> None:
    sent = delivery(edge, scheme)
    for outcome in ("accepted", "duplicate"):
        status, body, headers = await post(edge, scheme, sent)
        assert (status, body) == (200, b"")
        assert orjson.loads(headers["Tidegate-Answer"])["status"] == outcome
        assert "Set-Cookie" not in headers


async def test_discords_webhook_events_are_answered_204_each_time(edge: Edge) -> None:
    body = b'{"version":1,"type":1,"event":{"type":"ENTITLEMENT_CREATE"}}'
    at = str(int(time.time()))
    signature = DISCORD_SIGNER.sign(at.encode() + body).signature.hex()
    headers = {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": at}
    for outcome in ("accepted", "duplicate"):
        answer = await post(edge, "discord", SignedRequest(headers, body, "", "POST", 0))
        assert answer[:2] == (204, b"")
        assert orjson.loads(answer[2]["Tidegate-Answer"])["status"] == outcome


@pytest.mark.parametrize("scheme", ["xero", "mailgun"])
async def test_the_command_line_reads_the_answer_wherever_it_is(edge: Edge, scheme: str) -> None:
    reply = await asyncio.to_thread(posted, delivery(edge, scheme))
    assert (reply.status, reply.outcome) == (200, "accepted")
    assert reply.document["event_id"].startswith("evt_")


async def test_a_misfit_of_such_a_vendor_is_answered_200_too(edge: Edge) -> None:
    mapping = {"dedup_key": "nothing"}
    edge.sources.table.apply(*source("acme", "paystack", "paystack", [SECRET], mapping=mapping))
    body = b'{"event":"charge.success"}'
    request = SignedRequest(BODY_RULES["paystack"](body, 0), body, "", "POST", 0)
    status, answer, _ = await post(edge, "paystack", request)
    assert (status, orjson.loads(answer)["status"]) == (200, "quarantined")


async def test_the_other_schemes_answer_202(edge: Edge) -> None:
    body = b'{"event":"charge.success"}'
    edge.sources.table.apply(*source("acme", "token", "token", [SECRET]))
    request = SignedRequest(TOKEN_RULES["token"](body, 0), body, "", "POST", 0)
    assert (await post(edge, "token", request))[0] == 202
