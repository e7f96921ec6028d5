"""Events let in through the operator's API are what a hook would have made of them."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

import pytest
from support.webhooks import VAULT, MemoryLog, ticket, topology

from ingress.receive.admission import DirectAdmission
from streams.errors import KafkaUnavailable, MalformedBody, Misfit
from streams.event_admission import NewEvent
from streams.serde import ids
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope, PayloadRef, Quarantined
from streams.tenants.settings import SourceSettings
from streams.topology.model import Cancels, Route

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
EVENT = NewEvent(
    "acme",
    "zendesk",
    "ticket.created",
    "e1",
    "123",
    1_700_000_000_000,
    {"status": "OPEN"},
    b'{"n":1}',
    TRACE,
    "https://acme.example/done",
)


def door(log: MemoryLog, *routes: Route) -> DirectAdmission:
    return DirectAdmission(log, VAULT, log.book, topology(*routes))


def kept(body: bytes, **fields: object) -> Quarantined:
    digest = hashlib.sha256(body).digest()
    record = Quarantined(
        ids.quarantined_event_id("acme", "zendesk", digest),
        "acme",
        "zendesk",
        "dedup_key",
        "why",
        1_700_000_000_000,
        digest,
        PayloadRef(0, (0,), len(body), "kek_1"),
        "text/plain",
        "r-1",
        {},
        TRACE,
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def envelope(log: MemoryLog, at: int = -1) -> Envelope:
    return ENVELOPE.decode(log.on("events.received")[at].value)


async def test_a_submitted_event_is_a_normal_envelope_with_its_payload_sealed() -> None:
    log = MemoryLog()
    admitted = await door(log).submit(EVENT)
    made, record = envelope(log), log.on("events.received")[0]
    assert admitted.job_id == ids.event_job_id("acme", "zendesk", "e1")
    assert (made.event_id, made.fingerprint) == (
        admitted.event_id,
        ids.fingerprint("acme", "zendesk", "e1"),
    )
    assert (made.event_type, made.subject, made.occurred_at) == (
        "ticket.created",
        "123",
        1_700_000_000_000,
    )
    assert (made.attributes, made.callback_url) == ({"status": "OPEN"}, EVENT.callback_url)
    assert made.routed, "its answer named a job"
    assert (made.payload_hash, made.content_type) == (
        hashlib.sha256(EVENT.payload).digest(),
        "application/json",
    )
    assert record.headers["traceparent"] == TRACE.encode()
    assert log.body(made) == EVENT.payload
    kept_at = {(r.key, r.partition) for r in log.records if r.topic != "tenants"}
    assert kept_at == {(b"acme", ids.partition_for("acme", 4))}


async def test_an_event_whose_route_only_cancels_has_no_job_and_counts_as_routed() -> None:
    log = MemoryLog()
    ends = Route("zendesk", "*", None, "webhook", Cancels("follow_up", "subject"))
    admitted = await door(log, ends).submit(EVENT)
    assert (admitted.job_id, envelope(log).routed) == (None, True)


async def test_twins_of_a_batch_are_one_event() -> None:
    log = MemoryLog()
    side = door(log)
    answers = await asyncio.gather(*(side.submit(EVENT) for _ in range(3)))
    assert sorted(each.repeated for each in answers) == [False, True, True]
    assert len({each.event_id for each in answers}) == 1
    assert len(log.on("events.received")) == 1


async def test_without_a_dedup_key_equal_payloads_are_one_event() -> None:
    log = MemoryLog()
    side, keyless = door(log), replace(EVENT, dedup_key=None)
    first, second = await side.submit(keyless), await side.submit(keyless)
    other = await side.submit(replace(keyless, payload=b'{"n":2}'))
    assert (first.job_id, second.repeated) == (second.job_id, True)
    assert other.job_id != first.job_id


async def test_a_released_body_gets_the_job_that_its_delivery_would_get_now() -> None:
    log, body = MemoryLog(), ticket("e1")
    record = kept(body)
    admitted = await door(log).release(record, SourceSettings(scheme="zendesk"), body)
    made = envelope(log)
    assert admitted.job_id == ids.event_job_id("acme", "zendesk", "e1")
    assert (made.event_id, made.event_type) == (record.event_id, "ticket.created")
    assert made.routed
    assert (made.content_type, made.request_id) == ("text/plain", "r-1")
    assert made.received_at > record.received_at
    [payload] = log.on("payloads")
    assert made.payload_ref.offsets == (payload.offset,)
    assert log.body(made) == body


@pytest.mark.parametrize("dedup_by", ["key", "request"])
async def test_a_release_done_twice_is_one_fingerprint_and_one_job(dedup_by: str) -> None:
    log, body = MemoryLog(), ticket("e1")
    settings = SourceSettings(scheme="zendesk", dedup_by=dedup_by)
    answers = [await door(log).release(kept(body), settings, body) for _ in range(2)]
    assert answers[0] == answers[1]
    assert envelope(log, 0).fingerprint == envelope(log, 1).fingerprint


async def test_a_form_of_github_is_released_as_the_event_that_it_holds() -> None:
    log, form = MemoryLog(), b"payload=%7B%22repository%22%3A%7B%22full_name%22%3A%22a%2Fb%22%7D%7D"
    record = kept(form, headers={"X-GitHub-Event": "push"})
    await door(log).release(record, SourceSettings(scheme="github"), form)
    made = envelope(log)
    assert (made.event_type, made.subject) == ("push", "a/b")
    assert log.body(made) == form


async def test_the_mapping_and_callback_of_now_and_the_kept_headers_decide() -> None:
    log = MemoryLog()
    settings = SourceSettings(
        scheme="github", mapping={"dedup_key": "n"}, callback_url="https://acme.example/now"
    )
    record = kept(b'{"n":7}', headers={"X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1"})
    await door(log).release(record, settings, b'{"n":7}')
    made = envelope(log)
    assert (made.event_type, made.dedup_key, made.delivery_id) == ("push", "7", "d-1")
    assert made.callback_url == "https://acme.example/now"


@pytest.mark.parametrize(
    ("body", "error"), [(b'{"id":1}', Misfit), (b"<xml/>", MalformedBody)], ids=str
)
async def test_a_body_that_still_does_not_fit_writes_nothing(
    body: bytes, error: type[Misfit]
) -> None:
    log = MemoryLog()
    settings = SourceSettings(scheme="hmac-sha256", mapping={"dedup_key": "order"})
    with pytest.raises(error):
        await door(log).release(kept(body), settings, body)
    assert log.records == []


async def test_an_event_that_is_not_acknowledged_is_not_remembered() -> None:
    log = MemoryLog(down=True)
    side = door(log)
    with pytest.raises(KafkaUnavailable):
        await side.submit(EVENT)
    log.down = False
    assert not (await side.submit(EVENT)).repeated


async def test_a_released_event_keeps_the_key_that_its_signature_gave_it() -> None:
    log, settings = MemoryLog(), SourceSettings(scheme="standard-webhooks")
    waiting = kept(b'{"amount":1}', message_id="msg_7", signed_at=5.0)
    await door(log).release(waiting, settings, b'{"amount":1}')
    assert envelope(log).dedup_key == "msg_7"


async def test_a_twin_is_known_no_longer_than_a_tenth_of_the_window() -> None:
    log = MemoryLog()
    short = DirectAdmission(log, VAULT, log.book, replace(topology(), window_ms=1))
    first = await short.submit(EVENT)
    await asyncio.sleep(0.01)
    assert not first.repeated
    assert not (await short.submit(EVENT)).repeated
