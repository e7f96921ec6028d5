"""What is answered while an event cannot be stored for certain."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import structlog
from prometheus_client import REGISTRY
from support.ingress_app import Edge, running
from support.webhooks import (
    MemoryLog,
    SilentLog,
    signed,
    source,
    tenant_on,
    ticket,
    zendesk_signed,
)

from ingress.receive import acknowledgement
from ingress.receive.receiver import Receiver


async def test_a_rate_that_cannot_be_kept_is_answered_503() -> None:
    async with running(wait=lambda tenant_id: None) as edge:
        status, answer = await edge.deliver("acme", ticket("e1"))
        assert status == 503
        assert answer["detail"].startswith("this ingress does not know the tenant's share")


async def test_an_event_that_is_not_acknowledged_is_answered_503_and_taken_next_time(
    edge: Edge,
) -> None:
    edge.log.down = True
    body = ticket("e1")
    path = "/v1/hooks/acme/zendesk"
    status, answer, headers = await edge.post(path, body, zendesk_signed(body))
    assert (status, answer["type"]) == (503, "urn:tidegate:problem:unavailable")
    assert int(headers["Retry-After"]) > 0
    edge.log.down = False
    assert (await edge.deliver("acme", body))[0] == 202


async def test_a_lost_kafka_is_told_once_and_so_is_its_return(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acknowledgement, "CALM_SECONDS", 0)
    with structlog.testing.capture_logs() as lines:
        for down in (True, True, False, False):
            edge.log.down = down
            for number in range(2):
                await edge.deliver("acme", ticket(f"{down}-{number}"))
    assert [line["event"] for line in lines if "kafka" in line["event"]] == [
        "kafka does not acknowledge: answering 503",
        "kafka acknowledges again",
    ]


async def test_events_that_kafka_takes_between_others_are_not_its_return(edge: Edge) -> None:
    """An answer from memory is no sign of its return, either."""
    await edge.deliver("acme", ticket("known"))
    with structlog.testing.capture_logs() as lines:
        for number in range(3):
            edge.log.down = True
            await edge.deliver("acme", ticket(f"lost-{number}"))
            await edge.deliver("acme", ticket("known"))
            edge.log.down = False
            await edge.deliver("acme", ticket(f"kept-{number}"))
    told = [line["event"] for line in lines if "kafka" in line["event"]]
    assert told == ["kafka does not acknowledge: answering 503"]


def test_kafka_is_waited_for_five_seconds_unless_set() -> None:
    assert inspect.signature(Receiver).parameters["deadline_seconds"].default == 5.0


@pytest.mark.parametrize("silent", ["payloads", "events.received"])
async def test_without_both_acknowledgements_in_time_it_is_answered_503(silent: str) -> None:
    async with running(deadline_seconds=0.05, sender=SilentLog(silent=silent)) as edge:
        status, answer = await edge.deliver("acme", ticket("e1"))
        assert status == 503
        assert answer["detail"].startswith("Kafka did not acknowledge the event in time: wait")


async def test_a_partition_that_acknowledges_nothing_delays_no_delivery_of_another() -> None:
    silent, other = tenant_on(0), tenant_on(1)
    body, large = b'{"id":"other"}', b'{"id":"%d","pad":"' + b"x" * 1_000_000 + b'"}'
    async with running(sender=SilentLog(only=0), deadline_seconds=60.0) as edge:
        for tenant_id in (silent, other):
            edge.sources.table.apply(*source(tenant_id, "shop", "hmac-sha256"))
        before = bodies_taken()
        waiting = [
            asyncio.create_task(edge.post(f"/v1/hooks/{silent}/shop", each, signed(each)))
            for each in (large % number for number in range(20))
        ]
        async with asyncio.timeout(10):
            while bodies_taken() < before + 20:
                await asyncio.sleep(0.02)
            status, _, _ = await edge.post(f"/v1/hooks/{other}/shop", body, signed(body))
        assert status == 202
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


def bodies_taken() -> float:
    return REGISTRY.get_sample_value("tidegate_ingress_body_bytes_count") or 0.0


async def test_until_the_sources_are_known_deliveries_are_sent_back_and_it_is_not_ready(
    edge: Edge,
) -> None:
    edge.sources.ready = False
    status, _ = await edge.deliver("acme", ticket("e1"))
    codes = {}
    for path in ("/healthz", "/readyz"):
        async with edge.client.get(edge.url + path) as response:
            codes[path] = response.status
    assert (status, codes) == (503, {"/healthz": 200, "/readyz": 503})


async def test_a_fault_of_our_own_is_a_problem_that_shows_nothing() -> None:
    class Broken(MemoryLog):
        async def send(self, *args: Any, **kwargs: Any) -> int:
            raise RuntimeError("hunter2")

    async with running(sender=Broken()) as edge:
        status, answer = await edge.deliver("acme", ticket("e1"))
        assert (status, answer["type"]) == (500, "urn:tidegate:problem:internal")
        assert "hunter2" not in str(answer)
