"""Every answer of the edge, over real HTTP, with the log in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
import structlog
from aiohttp import web
from webhooks import VAULT, MemoryLog, signed, source, tenant, ticket, topology, zendesk_signed

from ingress.intake import Intake
from ingress.key_maker import KeyMaker
from ingress.receiver import Receiver
from ingress.router import Router
from ingress.sources import Source, SourceTable
from streams.data_key import CHUNK_BYTES
from streams.serde import ids
from streams.serde.codec import ENVELOPE, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

MIB = 1024 * 1024


class Sources:
    def __init__(self) -> None:
        self.ready = True
        self.table = SourceTable(VAULT)
        for tenant_id in ("acme", "bolt"):
            self.table.apply(*source(tenant_id, "zendesk", "zendesk"))
            self.table.apply(*source(tenant_id, "shop", "hmac-sha256"))
        self.table.apply(*source("acme", "rotated", "hmac-sha256", [b"new", b"old"]))
        self.table.apply(*tenant("gone", disabled=True))
        self.table.apply(*source("gone", "shop", "hmac-sha256"))

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        return self.table.lookup(tenant_id, name)


class Edge:
    """A running server, its log, and a client."""

    def __init__(self, **options: Any) -> None:
        self.sources = Sources()
        self.log = options.pop("sender", MemoryLog())
        keys = KeyMaker(self.log, VAULT, self.log.book, 4)
        intake = Intake(self.log, keys, 4)
        receiver = Receiver(self.sources, intake, topology(), **options)
        self.router = Router(receiver, lambda: self.sources.ready)
        self.url = ""
        self.client: aiohttp.ClientSession

    async def post(
        self, path: str, body: bytes | AsyncIterator[bytes], headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        async with self.client.post(f"{self.url}{path}", data=body, headers=headers) as response:
            answer = orjson.loads(await response.read())
            return response.status, answer, dict(response.headers)

    async def deliver(self, tenant_id: str, body: bytes) -> tuple[int, dict[str, Any]]:
        path = f"/v1/hooks/{tenant_id}/zendesk"
        status, answer, _ = await self.post(path, body, zendesk_signed(body))
        return status, answer


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Edge]:
    edge = Edge(**options)
    server = web.Server(
        edge.router.handle, access_log=None, auto_decompress=False, lingering_time=0.1
    )
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    edge.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession() as edge.client:
        try:
            yield edge
        finally:
            await runner.cleanup()


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
    ):
        status, answer, sent = await edge.post(path, body, headers)
        del sent["Date"]
        answers.append((status, answer, sent))
    assert answers == [answers[0]] * len(answers)
    assert answers[0][0] == 401
    assert answers[0][2]["Content-Type"] == "application/problem+json"
    assert answers[0][1]["type"] == "urn:tidegate:problem:unauthorized"
    assert edge.log.records == []


async def test_both_secrets_of_a_rotation_hold(edge: Edge) -> None:
    for number, secret in enumerate((b"new", b"old")):
        body = b'{"id":"%d"}' % number
        status, _, _ = await edge.post("/v1/hooks/acme/rotated", body, signed(body, secret))
        assert status == 202


async def test_malformed_json_is_told_only_to_who_signed_it(edge: Edge) -> None:
    body = b'{"id": NaN}'
    unsigned = await edge.post("/v1/hooks/acme/shop", body, {})
    status, answer, _ = await edge.post("/v1/hooks/acme/shop", body, signed(body))
    assert unsigned[0] == 401
    assert (status, answer["type"]) == (400, "urn:tidegate:problem:malformed-body")
    assert edge.log.records == []


async def test_a_compressed_body_is_verified_as_it_came(edge: Edge) -> None:
    """It is not inflated: what was signed is the bytes on the wire, and a bomb stays small."""
    body = b"\x1f\x8b\x08\x00"
    headers = {**signed(body), "Content-Encoding": "gzip"}
    status, answer, _ = await edge.post("/v1/hooks/acme/shop", body, headers)
    assert (status, answer["type"]) == (400, "urn:tidegate:problem:malformed-body")


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
                assert (status, answer["type"]) == (503, "urn:tidegate:problem:busy")
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
