"""Every answer of the edge, over real HTTP, with the log in memory."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hmac
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
import structlog
from edge import DISCORD_SIGNER, Edge, running
from multidict import CIMultiDict
from webhooks import MemoryLog, signed, source, tenant, ticket, topology, zendesk_signed

from ingress import holding, unrouted
from ingress.duplicates import seconds_kept
from streams.data_key import CHUNK_BYTES
from streams.serde import ids
from streams.serde.codec import ENVELOPE, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.topology.load import load

MIB = 1024 * 1024


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running() as found:
        yield found


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
        "acme", "zendesk", "webhook",
    )  # fmt: skip
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


async def test_an_event_that_no_route_matches_is_kept_without_a_job(edge: Edge) -> None:
    status, answer = await edge.deliver("acme", ticket("e1", type="zen:event-type:user.created"))
    assert (status, answer["job_id"]) == (202, None)
    assert len(edge.log.on("events.received")) == 1


async def test_colliding_ids_of_two_tenants_are_two_jobs(edge: Edge) -> None:
    answers = [await edge.deliver(tenant_id, ticket("e1")) for tenant_id in ("acme", "bolt")]
    assert [status for status, _ in answers] == [202, 202]
    assert len({answer["job_id"] for _, answer in answers}) == 2


async def test_a_body_that_names_another_tenant_changes_nothing(edge: Edge) -> None:
    await edge.deliver("acme", ticket("e1", tenant_id="bolt", tenant="bolt", account_id="bolt"))
    [received] = edge.log.on("events.received")
    assert ENVELOPE.decode(received.value).tenant_id == "acme"
    assert received.key == b"acme"


async def test_nobody_can_tell_why_a_request_is_not_authorized(edge: Edge) -> None:
    body = b'{"id":"e1"}'
    answers = []
    for path, headers in (
        ("/v1/hooks/acme/shop", signed(body, b"wrong")),
        ("/v1/hooks/acme/shop", {}),
        ("/v1/hooks/acme/nothing", signed(body)),
        ("/v1/hooks/nobody/shop", signed(body)),
        ("/v1/hooks/gone/shop", signed(body)),
        ("/v1/hooks/ac%2Fme/shop", signed(body)),
        ("/v1/hooks/bolt/rotated", signed(body, b"new")),
        ("/v1/hooks/acme/unmounted", signed(body)),
    ):
        status, answer, sent = await edge.post(path, body, headers)
        del sent["Date"]
        answers.append((status, answer, sent))
    assert answers == [answers[0]] * len(answers)
    assert answers[0][0] == 401
    assert answers[0][2]["Content-Type"] == "application/problem+json"
    assert answers[0][1]["type"] == "urn:tidegate:problem:unauthorized"
    assert edge.log.records == []


def slack_signed(body: bytes, secret: bytes = b"slack") -> dict[str, str]:
    stamp = str(int(time.time()))
    mac = hmac.new(secret, f"v0:{stamp}:".encode() + body, "sha256").hexdigest()
    return {"X-Slack-Signature": f"v0={mac}", "X-Slack-Request-Timestamp": stamp}


async def test_a_handshake_is_answered_once_its_signature_holds_and_is_no_event(edge: Edge) -> None:
    body = b'{"type":"url_verification","challenge":"c"}'
    refused = await edge.post("/v1/hooks/acme/slack", body, slack_signed(body, b"other"))
    status, answer, headers = await edge.post("/v1/hooks/acme/slack", body, slack_signed(body))
    assert (refused[0], status, answer) == (401, 200, {"challenge": "c"})
    assert headers["Content-Type"] == "application/json"
    stamp, ping = str(int(time.time())), b'{"type":1}'
    signature = DISCORD_SIGNER.sign(stamp.encode() + ping).signature.hex()
    signed_ping = {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": stamp}
    assert (await edge.post("/v1/hooks/acme/discord", ping, signed_ping))[:2] == (200, {"type": 1})
    wrong = {**signed_ping, "X-Signature-Ed25519": "00" * 64}
    assert (await edge.post("/v1/hooks/acme/discord", ping, wrong))[0] == 401
    assert edge.log.records == []
    async with edge.client.get(f"{edge.url}/metrics") as response:
        assert 'tidegate_ingress_requests_total{outcome="handshake"}' in await response.text()


async def test_twilio_signs_the_public_url_that_a_proxy_tells_of(edge: Edge) -> None:
    path = "/v1/hooks/acme/twilio"
    public = edge.url.replace("http://", "https://") + path
    signature = base64.b64encode(
        hmac.digest(b"twilio", f"{public}MessageSidSM1MessageStatussent".encode(), "sha1")
    ).decode()
    headers = {"X-Twilio-Signature": signature, "Content-Type": "application/x-www-form-urlencoded"}
    body = b"MessageStatus=sent&MessageSid=SM1"
    assert (await edge.post(path, body, headers))[0] == 401
    status, _, _ = await edge.post(path, body, {**headers, "X-Forwarded-Proto": "https"})
    assert status == 202
    [received] = edge.log.on("events.received")
    assert ENVELOPE.decode(received.value).event_type == "message.sent"


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


async def test_both_secrets_of_a_rotation_hold(edge: Edge) -> None:
    for number, secret in enumerate((b"new", b"old")):
        body = b'{"id":"%d"}' % number
        status, _, _ = await edge.post("/v1/hooks/acme/rotated", body, signed(body, secret))
        assert status == 202


async def test_only_verified_deliveries_count_for_a_rate_and_429_says_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holding, "MOST_SECONDS", 0.01)
    asked: list[str] = []

    def wait(tenant_id: str) -> float:
        asked.append(tenant_id)
        return 0.0 if len(asked) == 1 else 6.2

    async with running(wait=wait) as edge:
        path, body = "/v1/hooks/acme/shop", b'{"id":"e1"}'
        for headers in ({}, signed(body, b"wrong")):
            assert (await edge.post(path, body, headers))[0] == 401
        assert (await edge.post("/v1/hooks/nobody/shop", body, signed(body)))[0] == 401
        assert asked == []
        assert (await edge.post(path, body, signed(body)))[0] == 202
        status, answer, sent = await edge.post(path, b'{"id": NaN}', signed(b'{"id": NaN}'))
        assert (status, answer["type"]) == (429, "urn:tidegate:problem:rate-limited")
        assert sent["Retry-After"] == "7"
        assert asked == ["acme", "acme"]
        assert len(edge.log.on("events.received")) == 1


async def test_a_rate_that_cannot_be_kept_is_answered_503() -> None:
    async with running(wait=lambda tenant_id: None) as edge:
        status, answer = await edge.deliver("acme", ticket("e1"))
        assert (status, answer["detail"]) == (503, "the tenant's rate cannot be kept for now")


async def test_malformed_json_is_told_only_to_who_signed_it(edge: Edge) -> None:
    body, json = b'{"id": NaN}', {"Content-Type": "application/json; charset=utf-8"}
    unsigned = await edge.post("/v1/hooks/acme/shop", body, json)
    status, answer, _ = await edge.post("/v1/hooks/acme/shop", body, {**signed(body), **json})
    assert unsigned[0] == 401
    assert (status, answer["type"]) == (400, "urn:tidegate:problem:malformed-body")
    assert edge.log.records == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, br"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "IMAGE/png"},
        {"Content-Type": "application/zip"},
    ],
    ids=str,
)
@pytest.mark.parametrize("tenant_id", ["acme", "nobody"])
async def test_a_form_that_cannot_be_read_is_refused_before_the_body_whoever_sends_it(
    edge: Edge, headers: dict[str, str], tenant_id: str
) -> None:
    """A compressed body is not inflated: what was signed is the bytes on the wire."""
    body = gzip.compress(b'{"id":"' + b"x" * 1_000_000 + b'"}')
    status, answer, _ = await edge.post(
        f"/v1/hooks/{tenant_id}/shop", body, {**signed(body), **headers}
    )
    assert (status, answer["type"]) == (415, "urn:tidegate:problem:unsupported-media")
    assert edge.log.records == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "identity"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/vnd.vendor.v2+json"},
        {"Content-Type": "nonsense"},
    ],
    ids=str,
)
async def test_json_under_an_odd_content_type_is_taken(edge: Edge, headers: dict[str, str]) -> None:
    body = b'{"id":"odd"}'
    status, _, _ = await edge.post("/v1/hooks/acme/shop", body, {**signed(body), **headers})
    assert status == 202


async def test_a_header_that_comes_twice_counts_as_none(edge: Edge) -> None:
    body = b'{"id":"twice"}'
    good, bad = signed(body)["X-Signature"], "0" * 64
    for pair in ((good, bad), (bad, good), (good, good)):
        twice = CIMultiDict(("X-Signature", each) for each in pair)
        status, _, _ = await edge.post("/v1/hooks/acme/shop", body, twice)
        assert status == 401
    other = CIMultiDict([*signed(body).items(), ("X-Request-Id", "a"), ("X-Request-Id", "b")])
    assert (await edge.post("/v1/hooks/acme/shop", body, other))[0] == 202
    [received] = edge.log.on("events.received")
    assert ENVELOPE.decode(received.value).request_id is None


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


def padded(size: int) -> bytes:
    return b'{"id":"big","pad":"' + b"x" * (size - 21) + b'"}'


async def test_a_body_at_the_cap_is_stored_in_chunks_that_open_in_order(edge: Edge) -> None:
    body = padded(MIB)
    status, _, _ = await edge.post("/v1/hooks/acme/shop", body, signed(body))
    assert status == 202
    [received] = edge.log.on("events.received")
    envelope = ENVELOPE.decode(received.value)
    assert edge.log.body(envelope) == body
    ref = envelope.payload_ref
    assert (ref.size, len(ref.offsets)) == (MIB, MIB // CHUNK_BYTES)


async def test_a_byte_above_the_cap_is_refused_declared_or_streamed(edge: Edge) -> None:
    body = padded(MIB + 1)

    async def streamed() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    for sent in (body, streamed()):
        status, answer, _ = await edge.post("/v1/hooks/acme/shop", sent, signed(body))
        assert (status, answer["type"]) == (413, "urn:tidegate:problem:too-large")
    assert edge.log.records == []


async def test_a_source_has_a_cap_of_its_own_and_an_unknown_one_the_usual(edge: Edge) -> None:
    edge.sources.table.apply(*source("acme", "small", "hmac-sha256", max_body_bytes=100))
    edge.sources.table.apply(*source("acme", "large", "hmac-sha256", max_body_bytes=3 * MIB))
    statuses = {}
    for name in ("small", "large", "nothing"):
        for size in (100, 101, MIB, MIB + 1, 3 * MIB, 3 * MIB + 1):
            body = padded(size)
            status, _, _ = await edge.post(f"/v1/hooks/acme/{name}", body, signed(body))
            statuses[name, size] = status
    accepted = {place for place, status in statuses.items() if status in (200, 202)}
    assert accepted == {("small", 100), *(("large", s) for s in (100, 101, MIB, MIB + 1, 3 * MIB))}
    assert statuses["nothing", MIB] == 401
    assert statuses["nothing", MIB + 1] == 413


async def test_an_erased_tenants_deliveries_are_not_authorized_for_good(edge: Edge) -> None:
    erasure = TENANT.encode(TenantRecord("acme", "erasure", "", True, "{}"))
    key = tenant_key("acme", "erasure", "")
    edge.log.book.apply(key, erasure)  # it got past the check of its signature just before
    assert (await edge.deliver("acme", ticket("e1")))[0] == 401
    edge.sources.table.apply(key, erasure)
    edge.sources.table.apply(*tenant("acme"))
    edge.sources.table.apply(*source("acme", "zendesk", "zendesk"))
    assert (await edge.deliver("acme", ticket("e2")))[0] == 401
    assert (await edge.deliver("bolt", ticket("e1")))[0] == 202
    assert len(edge.log.on("payloads")) == 1


async def test_a_streamed_body_under_the_cap_is_taken(edge: Edge) -> None:
    body = padded(200_000)

    async def streamed() -> AsyncIterator[bytes]:
        yield body[:100_000]
        yield body[100_000:]

    status, _, _ = await edge.post("/v1/hooks/acme/shop", streamed(), signed(body))
    assert status == 202


async def test_a_sender_that_expects_100_continue_is_told_to(edge: Edge) -> None:
    body = padded(1000)
    async with edge.client.post(
        f"{edge.url}/v1/hooks/acme/shop", data=body, headers=signed(body), expect100=True
    ) as response:
        assert response.status == 202


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    async with running(body_seconds=0.05) as edge:
        arrived = asyncio.Event()

        async def stalled() -> AsyncIterator[bytes]:
            yield b"{"
            await arrived.wait()

        headers = signed(b"{}")
        status, answer, sent = await edge.post("/v1/hooks/acme/shop", stalled(), headers)
        assert (status, answer["type"]) == (408, "urn:tidegate:problem:slow-body")
        assert sent["Connection"] == "close"


class SlowLog(MemoryLog):
    """Takes records once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def send(self, *record: Any, **more: Any) -> int:
        self.asked.set()
        await self.go_on.wait()
        return await super().send(*record, **more)


async def test_bodies_beyond_what_a_process_holds_are_turned_away_whoever_sends_them() -> None:
    log, body = SlowLog(), padded(600)

    async def streamed() -> AsyncIterator[bytes]:
        yield body[:300]
        yield body[300:]

    async with running(sender=log, in_flight_bytes=1_000) as edge:
        first = asyncio.create_task(edge.post("/v1/hooks/acme/shop", body, signed(body)))
        await log.asked.wait()
        answers = []
        for path in ("/v1/hooks/acme/shop", "/v1/hooks/nobody/shop"):
            for sent in (body, streamed()):
                status, answer, headers = await edge.post(path, sent, signed(body))
                assert (status, answer["type"]) == (429, "urn:tidegate:problem:busy")
                assert int(headers["Retry-After"]) > 0
                answers.append(answer)
        assert answers == [answers[0]] * 4
        small = padded(300)
        assert (await edge.post("/v1/hooks/acme/shop", small, signed(small, b"x")))[0] == 401
        log.go_on.set()
        assert (await first)[0] == 202
        redelivered = padded(900)
        status, _, _ = await edge.post("/v1/hooks/acme/shop", redelivered, signed(redelivered))
        assert status == 200


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


async def test_a_lost_kafka_is_told_once_and_so_is_its_return(edge: Edge) -> None:
    with structlog.testing.capture_logs() as lines:
        for down in (True, True, False, False):
            edge.log.down = down
            for number in range(2):
                await edge.deliver("acme", ticket(f"{down}-{number}"))
    assert [line["event"] for line in lines if "kafka" in line["event"]] == [
        "kafka does not acknowledge: answering 503",
        "kafka acknowledges again",
    ]


@pytest.mark.parametrize("silent", ["payloads", "events.received"])
async def test_without_both_acknowledgements_in_time_it_is_answered_503(silent: str) -> None:
    class Silent(MemoryLog):
        async def send(self, topic: str, *args: Any, **kwargs: Any) -> int:
            if topic == silent:
                await asyncio.Event().wait()
            return await super().send(topic, *args, **kwargs)

    async with running(deadline_seconds=0.05, sender=Silent()) as edge:
        status, answer = await edge.deliver("acme", ticket("e1"))
        assert (status, answer["detail"]) == (503, "no acknowledgement within the deadline")


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


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/hooks/acme", 404),
        ("POST", "/v1/hooks/acme/", 404),
        ("POST", "/v1/hooks/acme/zendesk/more", 404),
        ("POST", "/v1/hooks//zendesk", 404),
        ("GET", "/v1/hooks/acme/zendesk", 405),
        ("PUT", "/v1/hooks/nobody/nothing", 405),
        ("POST", "/healthz", 405),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("HEAD", "/metrics", 200),
    ],
)
async def test_other_paths_and_methods(edge: Edge, method: str, path: str, status: int) -> None:
    async with edge.client.request(method, edge.url + path) as response:
        assert response.status == status
        if status >= 400:
            answer = orjson.loads(await response.read())
            assert answer["status"] == status
            assert answer["type"].startswith("urn:tidegate:problem:")
        assert ("Allow" in response.headers) == (status == 405)


async def test_a_fault_of_our_own_is_a_problem_that_shows_nothing() -> None:
    class Broken(MemoryLog):
        async def send(self, *args: Any, **kwargs: Any) -> int:
            raise RuntimeError("hunter2")

    async with running(sender=Broken()) as edge:
        status, answer = await edge.deliver("acme", ticket("e1"))
        assert (status, answer["type"]) == (500, "urn:tidegate:problem:internal")
        assert "hunter2" not in str(answer)


async def test_metrics_count_outcomes_and_name_no_tenant(edge: Edge) -> None:
    await edge.deliver("acme", ticket("counted"))
    await edge.deliver("acme", ticket("counted"))
    body = b'{"id":"old key"}'
    await edge.post("/v1/hooks/acme/rotated", body, signed(body, b"old"))
    await edge.post("/v1/hooks/acme/shop", body, {})
    async with edge.client.get(f"{edge.url}/metrics") as response:
        text = await response.text()
    for sample in (
        'tidegate_ingress_requests_total{outcome="accepted"}',
        'tidegate_ingress_requests_total{outcome="duplicate"}',
        'tidegate_ingress_requests_total{outcome="unauthorized"}',
        'tidegate_ingress_old_key_matches_total{scheme="hmac-sha256"}',
        'tidegate_ingress_signature_failures_total{reason="missing_header",scheme="hmac-sha256"}',
        "tidegate_ingress_ack_seconds_count",
        "tidegate_ingress_body_bytes_sum",
    ):
        assert f"\n{sample} " in text
    assert "acme" not in text
    assert "bolt" not in text


async def test_every_answer_ends_its_line(edge: Edge) -> None:
    body = ticket("e1")
    for path, headers in (
        ("/v1/hooks/acme/zendesk", zendesk_signed(body)), ("/v1/hooks/acme/zendesk", {}), ("/", {}),
    ):  # fmt: skip
        async with edge.client.post(f"{edge.url}{path}", data=body, headers=headers) as response:
            assert (await response.read()).endswith(b"}\n")


async def test_what_no_route_matches_is_told_once_for_its_kind_and_names_no_tenant(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrouted, "MOST_TOLD", 2)
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
            "event": "no route: kept on events, no job", "log_level": "info",
            "source": "zendesk", "event_type": kind,
        }
        for kind in ("user.created", "user.deleted")
    ]  # fmt: skip
