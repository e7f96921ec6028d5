"""The demo's receiver of outgoing webhooks verifies and misbehaves as its endpoints say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
from standardwebhooks import Webhook

from streams.delivery.message.signing import headers
from streams.demo.world.receiver import Receiver
from streams.demo.world.subscribers import Subscriber, subscribers
from streams.process.wall_clock import wall_ms

ENDPOINTS = {each.endpoint_id: each for each in subscribers()}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    serving = Receiver(ENDPOINTS.values())
    await serving.start()
    yield serving
    await serving.stop()


async def post(receiver: Receiver, to: Subscriber, id_: str, secret: str | None = None) -> int:
    signed = headers(id_, wall_ms(), b"{}", [(secret or to.secret).encode()])
    async with (
        aiohttp.ClientSession() as session,
        session.post(receiver.url(to.place), data=b"{}", headers=signed) as answer,
    ):
        return answer.status


async def test_a_verified_message_is_taken(receiver: Receiver) -> None:
    to = ENDPOINTS["everything"]
    assert await post(receiver, to, "evt_1") == 204
    (hook,) = receiver.hooks
    assert hook.place == ("acme", "everything", "evt_1")
    assert hook.taken


async def test_a_signature_under_another_secret_is_refused(receiver: Receiver) -> None:
    other = ENDPOINTS["fails"].secret
    assert await post(receiver, ENDPOINTS["everything"], "evt_1", other) == 401
    assert not receiver.hooks[0].taken


async def test_every_third_message_fails_at_its_first_request(receiver: Receiver) -> None:
    answers = [await post(receiver, ENDPOINTS["fails"], f"evt_{n}") for n in (1, 2, 3, 3, 4)]
    assert answers == [204, 204, 503, 204, 204]


async def test_a_held_request_is_not_answered_until_it_is_released(receiver: Receiver) -> None:
    to = ENDPOINTS["everything"]
    hold = receiver.hold(to.place)
    sending = asyncio.create_task(post(receiver, to, "evt_1"))
    assert (await hold.request).message_id == "evt_1"
    assert not sending.done()
    hold.release()
    await sending
    assert await post(receiver, to, "evt_1") == 204
    assert [hook.status for hook in receiver.hooks] == [None, 204], "the held one counts as lost"


async def test_it_comes_back_on_its_port_and_remembers(receiver: Receiver) -> None:
    to, url = ENDPOINTS["everything"], receiver.url(("acme", "everything"))
    await post(receiver, to, "evt_1")
    await receiver.stop()
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(receiver, to, "evt_2")
    await receiver.start()
    assert receiver.url(("acme", "everything")) == url
    assert await post(receiver, to, "evt_2") == 204
    assert [hook.message_id for hook in receiver.hooks] == ["evt_1", "evt_2"]


async def test_the_public_library_signs_what_it_accepts(receiver: Receiver) -> None:
    to, now = ENDPOINTS["everything"], time.time()
    at = datetime.fromtimestamp(now, UTC)
    signed = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(now)),
        "webhook-signature": Webhook(to.secret).sign("evt_1", at, "{}"),
    }
    async with aiohttp.ClientSession() as session:
        await session.post(receiver.url(to.place), data=b"{}", headers=signed)
    assert receiver.hooks[0].verified
