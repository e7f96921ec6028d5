"""The span of a webhook: what is traced, what is left out, and what the event carries on."""

from __future__ import annotations

import pytest
from opentelemetry.trace import StatusCode
from support.ingress_app import Edge, running
from support.recorded_spans import (
    SAMPLED,
    UNSAMPLED,
    parent_id,
    recording,
    traceparent,
)
from support.webhooks import MemoryLog, ticket, zendesk_signed

from ingress.receive.receiver import ACK_SECONDS
from streams.errors import KafkaUnavailable
from streams.serde.codec import QUARANTINED
from streams.tracing import carried

HOOK = "POST /v1/hooks/{tenant_id}/{source}"


async def deliver(
    edge: Edge, body: bytes, trace: str | None = SAMPLED, type_: str = "application/json"
) -> int:
    more = {"traceparent": trace} if trace else {}
    headers = {**zendesk_signed(body), **more, "Content-Type": type_}
    status, _, _ = await edge.post("/v1/hooks/acme/zendesk?key=of-the-query", body, headers)
    return status


def carried_by(edge: Edge) -> list[str]:
    return [record.headers["traceparent"].decode() for record in edge.log.on("events.received")]


async def test_an_event_carries_the_span_that_sent_it(edge: Edge) -> None:
    with recording() as found:
        assert await deliver(edge, ticket("e1")) == 202
    request, sent = found.only(HOOK), found.only("send events.received")
    assert found.names == ["send payloads", "send events.received", HOOK]
    assert carried_by(edge) == [traceparent(sent)]
    assert parent_id(request) == int("b" * 16, 16)
    attributes = dict(request.attributes or {})
    assert attributes["tidegate.outcome"] == "accepted"
    assert attributes["http.response.status_code"] == 202
    assert str(attributes["tidegate.job.id"]).startswith("job_")
    assert (request.start_time or 0) <= (found.all[0].start_time or 0)


async def test_no_span_shows_body_query_or_signature(edge: Edge) -> None:
    body = ticket("e1")
    with recording() as found:
        await deliver(edge, body)
    signature = next(iter(zendesk_signed(body).values()))
    for secret in ("of-the-query", signature, "123", body.decode()[:40]):
        assert secret not in "".join(str(span.attributes) for span in found.all)


async def test_a_redelivery_is_told_apart(edge: Edge) -> None:
    with recording() as found:
        await deliver(edge, ticket("e1"))
        assert await deliver(edge, ticket("e1")) == 200
    outcomes = [(span.attributes or {})["tidegate.outcome"] for span in found.named(HOOK)]
    assert outcomes == ["accepted", "duplicate"]


@pytest.mark.parametrize("given", [None, UNSAMPLED, SAMPLED])
async def test_a_trace_that_is_not_sampled_is_carried_as_such(
    edge: Edge, given: str | None
) -> None:
    with recording("traceidratio", 0.0) as found:
        await deliver(edge, ticket("e1"), given)
    (trace,) = carried_by(edge)
    assert found.all == []
    assert (carried.context_of(trace) is not None, carried.is_sampled(trace)) == (True, False)


async def test_strangers_leave_no_span(edge: Edge) -> None:
    with recording() as found:
        body = ticket("e1")
        headers = {**zendesk_signed(body), "traceparent": SAMPLED}
        status, _, _ = await edge.post("/v1/hooks/acme/zendesk", body + b" ", headers)
    assert (status, found.all) == (401, [])


async def test_a_refusal_is_our_error_only_if_it_is_5xx() -> None:
    class Away(MemoryLog):
        async def send(self, *args: object, **fields: object) -> int:
            raise KafkaUnavailable("s3cret broker")

    async with running(sender=Away()) as edge:
        with recording() as found:
            assert await deliver(edge, ticket("e1")) == 503
            assert await deliver(edge, b"{no json") == 400
    away, malformed = found.named(HOOK)
    assert away.status.status_code is StatusCode.ERROR
    assert (away.attributes or {})["error.type"] == "unavailable"
    assert malformed.status.status_code is StatusCode.UNSET
    assert (malformed.attributes or {})["http.response.status_code"] == 400
    assert "s3cret" not in found.text()


async def test_the_time_to_the_acknowledgement_has_the_trace_as_an_exemplar(edge: Edge) -> None:
    with recording() as found:
        await deliver(edge, ticket("e1"))
    assert traceparent(found.only(HOOK))[3:35] in exemplars()


def exemplars() -> set[str]:
    """The trace ids of what the histogram has observed."""
    samples = (sample for family in ACK_SECONDS.collect() for sample in family.samples)
    return {sample.exemplar.labels["trace_id"] for sample in samples if sample.exemplar}


async def test_a_quarantined_body_carries_its_requests_trace(edge: Edge) -> None:
    with recording() as found:
        assert await deliver(edge, b"<order/>", type_="text/xml") == 202
    (kept,) = edge.log.on("quarantine")
    request = found.only(HOOK)
    assert found.names == ["send payloads", HOOK]
    assert (request.attributes or {})["tidegate.outcome"] == "quarantined"
    assert QUARANTINED.decode(kept.value).traceparent == traceparent(request)
