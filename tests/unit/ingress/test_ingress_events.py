"""What an accepted event leaves on the log, and what a repeated one does."""

from __future__ import annotations

import base64
import hmac
import re
import time
from dataclasses import asdict, replace
from typing import Any

import pytest
import structlog
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat
from support.ingress_app import Edge, running
from support.webhooks import signed, source, ticket, topology, zendesk_signed

from ingress.receive import unrouted_log
from ingress.receive.duplicates import seconds_kept
from streams.serde import ids
from streams.serde.codec import ENVELOPE
from streams.topology.load import load
from streams.topology.model import Cancels, Route


async def test_an_accepted_event_is_on_both_topics_and_its_body_opens(edge: Edge) -> None:
    body = ticket("e1")
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    more = {"traceparent": trace, "X-Request-Id": "r-1", "Content-Type": "application/json"}
    status, answer, _ = await edge.post(
        "/v1/hooks/acme/zendesk", body, {**zendesk_signed(body), **more}
    )
    assert (status, answer["status"]) == (202, "accepted")
    assert answer["job_id"] == ids.event_job_id("acme", "zendesk", "e1")
    [payload], [received] = edge.log.on("payloads"), edge.log.on("events.received")
    envelope = ENVELOPE.decode(received.value)
    assert envelope.event_id == answer["event_id"]
    assert envelope.fingerprint == ids.fingerprint("acme", "zendesk", "e1")
    assert (envelope.tenant_id, envelope.source, envelope.priority) == (
        "acme",
        "zendesk",
        "webhook",
    )
    assert (envelope.subject, envelope.occurred_at) == ("123", 1_783_143_198_000)
    assert envelope.routed, "its answer named a job"
    assert (envelope.request_id, envelope.content_type) == ("r-1", "application/json")
    assert (envelope.payload_ref.offsets, envelope.payload_ref.size) == ((0,), len(body))
    assert payload.value is not None
    assert edge.log.body(envelope) == body
    assert body not in payload.value
    home = ids.partition_for("acme", 4)
    assert {(r.key, r.partition) for r in (payload, received)} == {(b"acme", home)}
    assert received.headers["traceparent"] == trace.encode()


async def test_headers_are_what_cloudevents_requires_in_binary_mode(edge: Edge) -> None:
    """CloudEvents 1.0.2: four required attributes, each a non-empty UTF-8 string; `source` is a
    URI-reference, (source, id) is unique, specversion is `1.0`; Kafka names carry `ce_`."""
    for number in range(2):
        await edge.deliver("acme", ticket(f"e{number}"))
    records = edge.log.on("events.received")
    names = {"traceparent", "ce_id", "ce_source", "ce_specversion", "ce_type"}
    assert [set(record.headers) for record in records] == [names, names]
    for record in records:
        texts = {name: value.decode() for name, value in record.headers.items()}
        assert all(texts.values())
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(texts.values()))
        assert texts["ce_specversion"] == "1.0"
        assert texts["ce_type"] == "ticket.created"
        assert re.fullmatch(r"(/[A-Za-z0-9_.~-]+)+", texts["ce_source"])
        assert texts["ce_id"] == ENVELOPE.decode(record.value).event_id
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", texts["traceparent"])
    assert len({record.headers["ce_id"] for record in records}) == 2


class EnvelopeFormat(JSONFormat):
    """Tells the package what data a record has, which no content type names."""

    def read_data(self, body: bytes, datacontenttype: str | None) -> Any:
        return asdict(ENVELOPE.decode(body))


async def test_the_cloudevents_package_reads_the_records(edge: Edge) -> None:
    await edge.deliver("acme", ticket("e1"))
    [record] = edge.log.on("events.received")
    message = KafkaMessage(record.headers, record.key, record.value or b"")
    read = from_kafka(message, EnvelopeFormat())
    assert (read.get_type(), read.get_specversion()) == ("ticket.created", "1.0")
    assert read.get_source() == "/tenants/acme/sources/zendesk"
    data = read.get_data()
    assert isinstance(data, dict)
    assert (data["event_id"], data["subject"]) == (read.get_id(), "123")
    assert read.get_extension("partitionkey") == "acme"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "junk",
        f"00-{'0' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-{'b' * 16}-01",
        f"00-{'A' * 32}-{'b' * 16}-01",
    ],
)
async def test_a_malformed_traceparent_is_replaced(edge: Edge, given: str) -> None:
    body = ticket("e1")
    await edge.post("/v1/hooks/acme/zendesk", body, {**zendesk_signed(body), "traceparent": given})
    [received] = edge.log.on("events.received")
    fresh = received.headers["traceparent"].decode()
    assert fresh != given
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01", fresh)


async def test_a_redelivery_is_answered_with_the_first_ones_ids(edge: Edge) -> None:
    first = await edge.deliver("acme", ticket("e1"))
    again = await edge.deliver("acme", ticket("e1"))
    assert (first[0], again[0]) == (202, 200)
    assert again[1] == {**first[1], "status": "duplicate"}
    assert [len(edge.log.on(t)) for t in ("payloads", "events.received")] == [1, 1]


async def test_three_changes_that_a_zendesk_trigger_tells_of_are_three_events(edge: Edge) -> None:
    changes = [b'{"id": "4711", "status": "%s"}' % s for s in (b"open", b"pending", b"solved")]
    answers = [await edge.deliver("acme", body) for body in changes]
    assert [status for status, _ in answers] == [202, 202, 202]
    assert (await edge.deliver("acme", changes[1]))[0] == 200


async def test_a_sender_of_constant_bodies_has_each_request_taken_as_its_own_event(
    edge: Edge,
) -> None:
    edge.sources.table.apply(*source("acme", "cron", "hmac-sha256", dedup_by="request"))
    body = b'{"id":"nightly","type":"run","data":{}}'
    answers = [(await edge.post("/v1/hooks/acme/cron", body, signed(body)))[:2] for _ in range(3)]
    assert [status for status, _ in answers] == [202, 202, 202]
    envelopes = [ENVELOPE.decode(record.value) for record in edge.log.on("events.received")]
    assert len({envelope.fingerprint for envelope in envelopes}) == 3
    assert [e.dedup_key for e in envelopes] == [f"request:{e.event_id}" for e in envelopes]


async def test_an_event_that_no_route_matches_is_kept_without_a_job(edge: Edge) -> None:
    status, answer = await edge.deliver("acme", ticket("e1", type="zen:event-type:user.created"))
    assert (status, answer["job_id"]) == (202, None)
    [received] = edge.log.on("events.received")
    assert not ENVELOPE.decode(received.value).routed


async def test_an_event_whose_route_only_cancels_is_accepted_and_counts_as_routed() -> None:
    ends = Route("zendesk", "user.*", None, "batch", Cancels("follow_up", "subject"))
    solved = ticket("e1", type="zen:event-type:user.created")
    with structlog.testing.capture_logs() as lines:
        async with running(wiring=topology(ends)) as edge:
            status, answer = await edge.deliver("acme", solved)
            again, repeated = await edge.deliver("acme", solved)
            await edge.deliver("acme", ticket("e2"))
    assert (status, answer["status"], answer["job_id"]) == (202, "accepted", None)
    assert (again, repeated) == (200, {**answer, "status": "duplicate"})
    received = [ENVELOPE.decode(record.value) for record in edge.log.on("events.received")]
    told = [(each.routed, each.priority) for each in received]
    assert told == [(True, "batch"), (False, "webhook")]
    logged = [line["event_type"] for line in lines if line["event"].startswith("no route")]
    assert logged == ["ticket.created"]


async def test_colliding_ids_of_two_tenants_are_two_jobs(edge: Edge) -> None:
    answers = [await edge.deliver(tenant_id, ticket("e1")) for tenant_id in ("acme", "bolt")]
    assert [status for status, _ in answers] == [202, 202]
    assert len({answer["job_id"] for _, answer in answers}) == 2


async def test_a_body_that_names_another_tenant_changes_nothing(edge: Edge) -> None:
    await edge.deliver("acme", ticket("e1", tenant_id="bolt", tenant="bolt", account_id="bolt"))
    [received] = edge.log.on("events.received")
    assert ENVELOPE.decode(received.value).tenant_id == "acme"
    assert received.key == b"acme"


async def test_a_standard_webhook_sent_again_keeps_its_job(edge: Edge) -> None:
    answers = []
    for second in (0, 1):
        stamp, body = str(int(time.time()) - second), b'{"type":"a"}' + b" " * second
        mac = hmac.digest(b"svix", f"msg_1.{stamp}.".encode() + body, "sha256")
        headers = {
            "svix-id": "msg_1",
            "svix-timestamp": stamp,
            "svix-signature": "v1," + base64.b64encode(mac).decode(),
            "webhook-id": f"unsigned-{second}",
        }
        answers.append((await edge.post("/v1/hooks/acme/svix", body, headers))[:2])
    assert [status for status, _ in answers] == [202, 200]
    assert answers[0][1]["event_id"] == answers[1][1]["event_id"]


async def test_the_jobs_of_a_source_are_told_to_its_callback_url(edge: Edge) -> None:
    edge.sources.table.apply(
        *source("acme", "called", "hmac-sha256", callback_url="https://acme.example/done")
    )
    for name in ("called", "shop"):
        body = b'{"id":"e1"}'
        await edge.post(f"/v1/hooks/acme/{name}", body, signed(body))
    urls = [ENVELOPE.decode(each.value).callback_url for each in edge.log.on("events.received")]
    assert urls == ["https://acme.example/done", None]


async def test_past_its_receipt_a_repetition_is_stored_again_for_dedup_to_drop() -> None:
    async with running(wiring=replace(topology(), window_ms=1)) as edge:
        answers = [await edge.deliver("acme", ticket("e1")) for _ in range(2)]
    assert [status for status, _ in answers] == [202, 202]
    assert answers[0][1]["job_id"] == answers[1][1]["job_id"]
    assert len(edge.log.on("events.received")) == 2


def test_a_receipt_is_forgotten_long_before_dedup_forgets_its_event() -> None:
    day = 86_400_000
    assert seconds_kept(7 * day) == 600
    assert seconds_kept(60_000) == 6
    assert seconds_kept(load().window_ms) * 1000 <= load().window_ms / 10


async def test_what_no_route_matches_is_told_once_for_its_kind_and_names_no_tenant(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrouted_log, "MOST_TOLD", 2)
    kinds = ("user.created", "user.created", "user.deleted", "user.merged")
    with structlog.testing.capture_logs() as lines:
        for tenant_id in ("acme", "bolt"):
            await edge.deliver(tenant_id, ticket(f"routed of {tenant_id}"))
            for number, kind in enumerate(kinds):
                body = ticket(f"e{number}", type=f"zen:event-type:{kind}")
                status, answer = await edge.deliver(tenant_id, body)
                assert (status, answer["job_id"]) == (202, None)
    assert [line for line in lines if line["event"] != "data key made"] == [
        {
            "event": "no route: kept on events, no job",
            "log_level": "info",
            "source": "zendesk",
            "event_type": kind,
        }
        for kind in ("user.created", "user.deleted")
    ]
