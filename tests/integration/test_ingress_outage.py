"""What the edge answers while no broker does, and that no 2xx is lost over it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from support.ingress_world import Hooks, World, started
from support.webhooks import source, ticket, zendesk_signed

from streams.broker.embedded import EmbeddedKafka
from streams.serde.codec import ENVELOPE

pytestmark = pytest.mark.broker


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker that a test may kill."""
    broker = EmbeddedKafka(tmp_path / "kafka")
    yield broker
    broker.stop()


async def test_a_broker_killed_under_load_loses_no_2xx_and_503s_say_when_to_retry(
    own_broker: EmbeddedKafka,
) -> None:
    await asyncio.to_thread(own_broker.start)
    world = World(own_broker.bootstrap, {})
    world.create_topics()
    world.put(source("acme", "zendesk", "zendesk"))
    server, url = await started(world.settings, deadline_seconds=1.0)
    answered: dict[str, str] = {}
    refused: list[dict[str, str]] = []
    async with aiohttp.ClientSession() as session:
        hooks = Hooks(url, session)
        await hooks.ready()
        over = asyncio.Event()

        async def sender(lane: int) -> None:
            number = 0
            while not over.is_set():
                body = ticket(f"{lane}-{number}")
                status, answer, headers = await hooks.post(
                    "acme/zendesk", body, zendesk_signed(body)
                )
                if status in (200, 202):
                    answered[answer["event_id"]] = answer["status"]
                    number += 1
                else:
                    assert status == 503
                    refused.append(headers)

        lanes = [asyncio.create_task(sender(lane)) for lane in range(8)]

        async def many(count: int) -> bool:
            return len(answered) >= count

        await hooks.reaches(lambda: many(100), "events before the fault")
        await asyncio.to_thread(own_broker.kill)

        async def told() -> bool:
            return len(refused) >= 8

        await hooks.reaches(told, "503 while the broker is gone")
        assert await hooks.status("/healthz") == 200
        before = len(answered)
        await asyncio.to_thread(own_broker.start)
        await hooks.reaches(lambda: many(before + 100), "events after the fault", 60)
        over.set()
        await asyncio.gather(*lanes)
    await server.stop()
    stored = {ENVELOPE.decode(m.value()).event_id for m in world.scan("events.received")}
    assert set(answered) <= stored
    assert all(int(headers["Retry-After"]) > 0 for headers in refused)


async def test_without_a_broker_at_start_it_is_alive_says_503_and_is_ready_when_one_comes(
    own_broker: EmbeddedKafka,
) -> None:
    await asyncio.to_thread(own_broker.start)
    world = World(own_broker.bootstrap, {})
    world.create_topics()
    world.put(source("acme", "zendesk", "zendesk"))
    await asyncio.to_thread(own_broker.stop)
    server, url = await started(world.settings)
    async with aiohttp.ClientSession() as session:
        hooks = Hooks(url, session)
        body = ticket("e1")
        status, _, headers = await hooks.post("acme/zendesk", body, zendesk_signed(body))
        assert (status, int(headers["Retry-After"]) > 0) == (503, True)
        assert [await hooks.status(p) for p in ("/healthz", "/readyz")] == [200, 503]
        await asyncio.to_thread(own_broker.start)
        await hooks.ready()
        assert (await hooks.deliver("acme", body))[0] == 202
    await server.stop()
