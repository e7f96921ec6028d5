"""Signed bodies that do not fit their source are kept, once, and answered 202."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.ingress_app import Edge, running
from support.webhooks import MemoryLog, signed, source

from streams.serde import ids
from streams.serde.codec import QUARANTINED
from streams.serde.keys import quarantine_key

PATH = "/v1/hooks/acme/mapped"
MISFIT = b'{"type":"paid","id":"e1"}'


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running() as found:
        found.sources.table.apply(
            *source("acme", "mapped", "hmac-sha256", mapping={"dedup_key": "order.id"})
        )
        yield found


async def misfit(edge: Edge, body: bytes = MISFIT, **headers: str) -> tuple[int, dict[str, Any]]:
    status, answer, _ = await edge.post(PATH, body, {**signed(body), **headers})
    return status, answer


async def test_a_body_that_does_not_fit_is_sealed_recorded_with_its_reason_and_answered_202(
    edge: Edge,
) -> None:
    more = {"Content-Type": "application/json", "X-Request-Id": "r-1", "X-Secret": "hunter2"}
    status, answer = await misfit(edge, MISFIT, **more)
    digest = hashlib.sha256(MISFIT).digest()
    event_id = ids.quarantined_event_id("acme", "mapped", digest)
    assert (status, answer) == (202, {"status": "quarantined", "event_id": event_id})
    [payload], [kept] = edge.log.on("payloads"), edge.log.on("quarantine")
    record = QUARANTINED.decode(kept.value)
    assert (record.tenant_id, record.source, record.event_id) == ("acme", "mapped", event_id)
    assert (record.reason, record.payload_hash) == ("dedup_key", digest)
    assert "order.id" in record.detail
    assert (record.content_type, record.request_id) == ("application/json", "r-1")
    assert (record.payload_ref.offsets, record.payload_ref.size) == ((0,), len(MISFIT))
    data_key = edge.log.book.find("acme", record.payload_ref.key_id).result(0)
    assert data_key.open(event_id, [payload.value or b""], len(MISFIT)) == MISFIT
    assert kept.key == quarantine_key("acme", "mapped", digest)
    assert kept.partition == payload.partition == ids.partition_for("acme", 4)
    assert not any(text in (kept.value or b"") for text in (MISFIT, b"paid", b"hunter2"))
    assert edge.log.on("events.received") == []


async def test_what_the_preset_reads_of_the_headers_is_kept_for_the_release(edge: Edge) -> None:
    edge.sources.table.apply(*source("acme", "hub", "github", mapping={"dedup_key": "missing"}))
    body, named = b"{}", {"X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1"}
    sign = {"X-Hub-Signature-256": f"sha256={signed(body)['X-Signature']}"}
    status, _, _ = await edge.post("/v1/hooks/acme/hub", body, {**sign, **named})
    assert status == 202
    assert QUARANTINED.decode(edge.log.on("quarantine")[0].value).headers == named


@pytest.mark.parametrize("content_type", ["text/xml", "application/octet-stream"])
async def test_a_body_that_cannot_be_read_and_is_not_said_to_be_json_is_kept(
    edge: Edge, content_type: str
) -> None:
    status, answer = await misfit(edge, b"<order/>", **{"Content-Type": content_type})
    assert (status, answer["status"]) == (202, "quarantined")
    record = QUARANTINED.decode(edge.log.on("quarantine")[0].value)
    assert (record.reason, record.content_type) == ("malformed_body", content_type)
    assert "order" not in record.detail


async def test_a_misfit_that_is_not_signed_is_not_kept(edge: Edge) -> None:
    status, _, _ = await edge.post(PATH, MISFIT, signed(MISFIT, b"wrong"))
    assert (status, edge.log.records) == (401, [])


async def test_a_body_is_kept_once_however_often_it_comes_and_always_answered_alike(
    edge: Edge,
) -> None:
    answers = await asyncio.gather(*(misfit(edge) for _ in range(5)))
    answers.append(await misfit(edge))
    assert answers == [answers[0]] * 6
    assert len(edge.log.on("quarantine")) == len(edge.log.on("payloads")) == 1
    await misfit(edge, MISFIT + b" ")
    assert len(edge.log.on("quarantine")) == 2


async def test_two_processes_make_one_entry_of_a_body() -> None:
    keys, answers = set(), []
    for _ in range(2):
        async with running() as edge:
            edge.sources.table.apply(
                *source("acme", "mapped", "hmac-sha256", mapping={"dedup_key": "order.id"})
            )
            answers.append(await misfit(edge))
            keys |= {record.key for record in edge.log.on("quarantine")}
    assert answers[0] == answers[1]
    assert len(keys) == 1


@pytest.mark.parametrize("silent", ["payloads", "quarantine"])
async def test_without_every_acknowledgement_it_is_answered_503_and_kept_next_time(
    silent: str,
) -> None:
    class Silent(MemoryLog):
        async def send(self, topic: str, *args: Any, **kwargs: Any) -> int:
            if topic == silent and not said.is_set():
                await asyncio.Event().wait()
            return await super().send(topic, *args, **kwargs)

    said, log = asyncio.Event(), Silent()
    async with running(deadline_seconds=0.05, sender=log) as edge:
        edge.sources.table.apply(
            *source("acme", "mapped", "hmac-sha256", mapping={"dedup_key": "order.id"})
        )
        status, answer = await misfit(edge)
        assert (status, answer["type"]) == (503, "urn:tidegate:problem:unavailable")
        said.set()
        assert (await misfit(edge))[0] == 202
        assert len(log.on("quarantine")) == 1


async def test_a_mended_mapping_lets_the_same_body_in(edge: Edge) -> None:
    await misfit(edge)
    edge.sources.table.apply(*source("acme", "mapped", "hmac-sha256", mapping={"dedup_key": "id"}))
    status, answer = await misfit(edge)
    assert (status, answer["status"]) == (202, "accepted")


async def test_quarantined_deliveries_are_counted_as_such(edge: Edge) -> None:
    await misfit(edge)
    async with edge.client.get(f"{edge.url}/metrics") as response:
        text = await response.text()
    assert '\ntidegate_ingress_requests_total{outcome="quarantined"} ' in text
    assert '\ntidegate_ingress_misfits_total{reason="dedup_key"} ' in text


def test_the_id_is_a_uuid_of_version_8_and_differs_by_tenant_source_and_body() -> None:
    made = {
        ids.quarantined_event_id(*parts)
        for parts in (("a", "b", b"c"), ("ab", "", b"c"), ("a", "b", b"d"), ("b", "b", b"c"))
    }
    assert len(made) == 4
    assert all(each[18] == "8" and each[23] in "89ab" for each in made)


async def test_what_was_signed_beside_the_body_and_its_trace_are_kept_for_the_release(
    edge: Edge,
) -> None:
    mapping = {"dedup_key": "order.id"}
    key = b"whsec_c3ZpeA=="
    edge.sources.table.apply(*source("acme", "svix2", "standard-webhooks", [key], mapping=mapping))
    stamp, trace = int(time.time()), f"00-{'a' * 32}-{'b' * 16}-01"
    message = b"msg_1.%d." % stamp + MISFIT
    mac = base64.b64encode(hmac.digest(b"svix", message, "sha256")).decode()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(stamp),
        "webhook-signature": f"v1,{mac}",
        "traceparent": trace,
    }
    assert (await edge.post("/v1/hooks/acme/svix2", MISFIT, headers))[0] == 202
    record = QUARANTINED.decode(edge.log.on("quarantine")[0].value)
    assert (record.message_id, record.signed_at) == ("msg_1", float(stamp))
    assert record.traceparent == trace
